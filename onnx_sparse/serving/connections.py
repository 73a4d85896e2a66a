"""Connections of HTTP that cannot shut others out: idle ones end, slow ones have a time, headers have a size."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

#: How long a request's headers may take, in seconds, and their size.
HEADER_SECONDS, _MOST_HEADERS = 20.0, 1 << 16
#: The connections that may be open, of the descriptors that the process may have.
_SHARE = 0.7
_FOREVER = float("inf")
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def most_connections() -> int:
    """How many connections may be open, after the process has been allowed as many descriptors as it can have."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return 1 << 16
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(hard, 1 << 16) if hard != resource.RLIM_INFINITY else 1 << 16
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return int(most * _SHARE)


class Connections:
    """The open connections that wait for a request, the one that has waited longest first."""

    def __init__(self) -> None:
        self._most = most_connections()
        self._open = 0
        self._waiting: dict[Any, float] = {}

    def protocol(self) -> type[asyncio.Protocol]:
        """uvicorn's protocol for these connections."""
        connections = self

        class Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
            """A connection."""

            def connection_made(self, transport: Any) -> None:
                self._headers = 0
                connections.opened()
                connections.wait(self)
                super().connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                connections.closed(self)
                super().connection_lost(exc)

            def data_received(self, data: bytes) -> None:
                before = self.cycle
                super().data_received(data)
                if self.cycle is not before or not _is_free(self):
                    self._headers = 0
                    connections.answer(self)
                    return
                self._headers += len(data)
                connections.wait(self)
                if self._headers > _MOST_HEADERS:
                    self.transport.write(_TOO_LARGE)
                    self.transport.close()

            def on_response_complete(self) -> None:
                super().on_response_complete()
                if _is_free(self):
                    connections.rest(self)

        return Protocol

    def opened(self) -> None:
        """A connection is open; if there are too many, the one that has waited longest for a request is closed."""
        self._open += 1
        if self._open > self._most and self._waiting:
            self._close(next(iter(self._waiting)))

    def wait(self, connection: Any) -> None:
        """A connection waits for the rest of a request's headers, from the first byte on."""
        if self._waiting.get(connection, _FOREVER) == _FOREVER:
            self._waiting.pop(connection, None)
            self._waiting[connection] = time.monotonic() + HEADER_SECONDS

    def rest(self, connection: Any) -> None:
        """A connection has been answered, and waits for another request; uvicorn ends it if none comes."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = _FOREVER

    def answer(self, connection: Any) -> None:
        """A connection has a request that is answered."""
        self._waiting.pop(connection, None)

    def closed(self, connection: Any) -> None:
        """A connection is no longer open."""
        self._open -= 1
        self._waiting.pop(connection, None)

    async def end_late_ones(self) -> None:
        """Close the connections whose headers take too long, until canceled."""
        while True:
            await asyncio.sleep(HEADER_SECONDS / 10)
            now = time.monotonic()
            for connection in [each for each, end in self._waiting.items() if end < now]:
                self._close(connection)

    def _close(self, connection: Any) -> None:
        self._waiting.pop(connection, None)
        connection.transport.close()


def _is_free(connection: Any) -> bool:
    """Whether a connection has no request that is not answered."""
    return connection.cycle is None or connection.cycle.response_complete
