"""Connections of HTTP that cannot shut others out: idle ones end, slow ones have a time, headers have a size.

Few requests of a connection are read ahead of the one that is answered. Answers that nobody reads have a time, and all
of them a budget.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

_LOG = logging.getLogger("onnx_sparse.serving")

#: How long a request's headers may take, in seconds, and their size.
HEADER_SECONDS, _MOST_HEADERS = 20.0, 1 << 16
#: The connections that may be open, of the descriptors that the process may have.
_SHARE = 0.7
_FOREVER = float("inf")
#: The bytes of a connection that are parsed at once. Those of requests behind one that waits are not.
_PARSED = 1 << 14
#: How long an answer may be unread, in seconds, and for how many bytes that are read it gets another one.
ANSWER_SECONDS, _BYTES_PER_SECOND = 20.0, 1 << 17
#: How long one may have read nothing, in seconds, when others need the memory.
_STALLED_SECONDS = 1.0
#: The bytes of answers that all clients together may have yet to read, and from which on one is looked at.
_UNREAD, _LARGE = 1 << 28, 1 << 16
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


@dataclass
class _Unread:
    """An answer that is not read: its bytes, and when it must be."""

    size: int
    end: float

    def see(self, size: int) -> None:
        """It has so many bytes left."""
        self.end += max(0, self.size - size) / _BYTES_PER_SECOND
        self.size = size


class Connections:
    """The open connections that wait for a request, the one that has waited longest first."""

    def __init__(self) -> None:
        self._most = most_connections()
        self._open = 0
        self._waiting: dict[Any, float] = {}
        self._unread: dict[Any, _Unread] = {}

    def protocol(self) -> type[asyncio.Protocol]:
        """uvicorn's protocol for these connections."""
        connections = self

        class Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
            """A connection."""

            def connection_made(self, transport: Any) -> None:
                self._headers = 0
                self._unparsed = bytearray()
                self._has_ended = False
                connections.opened()
                connections.wait(self)
                super().connection_made(transport)
                self._resume = self.flow.resume_reading
                self.flow.resume_reading = self._resume_if_free

            def connection_lost(self, exc: Exception | None) -> None:
                connections.closed(self)
                super().connection_lost(exc)

            def eof_received(self) -> bool:
                """A client that sends nothing more gets the answers to what it has sent; then the connection ends."""
                self._has_ended = True
                return not self._is_done()

            def _is_done(self) -> bool:
                """Whether no answer is left: a body that is not whole never will be."""
                is_last = self._has_ended and not self._unparsed and not self._waits()
                return is_last and (_is_free(self) or self.cycle.more_body)

            def data_received(self, data: bytes) -> None:
                self._unparsed += data
                self._parse()

            def _parse(self) -> None:
                """Parse what has come, as long as no request waits for the answer to another one."""
                while self._unparsed and not self._waits() and not self.transport.is_closing():
                    piece = bytes(self._unparsed[:_PARSED])
                    del self._unparsed[:_PARSED]
                    self._received(piece)
                if self._unparsed:
                    self.flow.pause_reading()

            def _received(self, data: bytes) -> None:
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

            def _waits(self) -> bool:
                return bool(getattr(self, "pipeline", ()))

            def _resume_if_free(self) -> None:
                """uvicorn resumes after each answer, whatever waits already."""
                if not self._unparsed and not self._waits():
                    self._resume()

            def on_response_complete(self) -> None:
                super().on_response_complete()
                connections.sent(self)
                self._parse()
                self._resume_if_free()
                if self._is_done():
                    self.transport.close()
                elif _is_free(self):
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

    def sent(self, connection: Any) -> None:
        """A connection has an answer. If all have too much to read, those that have read nothing longest are closed."""
        unread = connection.transport.get_write_buffer_size()
        if unread < _LARGE:
            return
        self._unread.setdefault(connection, _Unread(unread, time.monotonic() + ANSWER_SECONDS)).size = unread
        self._give_up(sum(each.size for each in self._unread.values()) - _UNREAD, connection)

    def unread(self, needed: int = 0) -> int:
        """The bytes that clients have yet to read, after those were closed that hold as many as are needed.

        Only those that have read next to nothing for a second are closed.
        """
        now = time.monotonic()
        for connection, each in [*self._unread.items()]:
            each.see(connection.transport.get_write_buffer_size())
        self._give_up(needed, None, now + ANSWER_SECONDS - _STALLED_SECONDS)
        return sum(each.size for each in self._unread.values())

    def _give_up(self, needed: int, kept: Any, end: float = _FOREVER) -> None:
        """Close connections that hold as many bytes as are needed, those first that have read nothing for longest."""
        for connection, each in sorted(self._unread.items(), key=lambda entry: entry[1].end):
            if needed <= 0 or each.end > end:
                break
            if connection is not kept:
                needed -= each.size
                self._abort(connection, "too many bytes of answers are unread")

    def closed(self, connection: Any) -> None:
        """A connection is no longer open."""
        self._open -= 1
        self._unread.pop(connection, None)
        self._waiting.pop(connection, None)

    async def end_late_ones(self) -> None:
        """Close the connections whose headers, or the reading of answers, take too long, until canceled."""
        while True:
            await asyncio.sleep(HEADER_SECONDS / 10)
            now = time.monotonic()
            for connection, unread in [*self._unread.items()]:
                unread.see(connection.transport.get_write_buffer_size())
                if not unread.size:
                    del self._unread[connection]
                elif unread.end < now:
                    self._abort(connection, "the answer was not read in time")
            for connection in [each for each, end in self._waiting.items() if end < now]:
                self._close(connection)

    def _abort(self, connection: Any, why: str) -> None:
        _LOG.warning("closed a connection of %s: %s", (connection.client or ("an unknown client",))[0], why)
        self._unread.pop(connection, None)
        connection.transport.abort()

    def _close(self, connection: Any) -> None:
        self._waiting.pop(connection, None)
        connection.transport.close()


def _is_free(connection: Any) -> bool:
    """Whether a connection has no request that is not answered."""
    return connection.cycle is None or connection.cycle.response_complete
