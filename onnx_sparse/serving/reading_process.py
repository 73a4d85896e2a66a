"""A process that reads large requests: to make millions of Python's objects keeps the interpreter from all threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, TypeVar

from onnx_sparse.serving.errors import RequestError

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

#: How long a request may be read, and how long the process stays without one: it gives back its memory by its end.
_SECONDS, _IDLE_SECONDS = 60.0, 30.0
#: How much the process gives way to those that answer, and the most bytes that it may have.
_NICENESS, _MOST_MEMORY = 5, 2 << 30
_TOO_MUCH = "the request takes too much memory or time to be read; send less, or binary tensors"

_R = TypeVar("_R")


class ReadingProcess:
    """Calls functions in another process, one after another. It is started when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: tuple[SpawnProcess, Connection] | None = None

    def call(self, function: Callable[..., _R], *arguments: Any) -> _R:
        """What a function of a module returns.

        Raises:
            RequestError: The process ended or took too long.
            Exception: What the function raises.
        """
        with self._lock:
            connection = self._connection()
            try:
                connection.send((function, arguments))
                if not connection.poll(_SECONDS):
                    raise EOFError
                is_error, value = connection.recv()
            except (EOFError, OSError):
                self._end()
                raise RequestError(_TOO_MUCH, 413) from None
        if is_error:
            raise value
        return value  # type: ignore[no-any-return]

    def _connection(self) -> Connection:
        """The connection to the process, which is started if there is none."""
        if self._running is not None:
            process, connection = self._running
            if process.is_alive() and not connection.poll():
                return connection
            self._end()
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), name="reader", daemon=True)
        process.start()
        theirs.close()
        self._running = process, ours
        return ours

    def _end(self) -> None:
        assert self._running is not None
        process, connection = self._running
        self._running = None
        connection.close()
        process.kill()
        process.join()


def _work(connection: Connection) -> None:
    """Answer calls until none comes for a while, or the other process is gone."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    with suppress(ImportError, OSError, ValueError):  # Windows has no limits
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    try:
        while connection.poll(_IDLE_SECONDS):
            function, arguments = connection.recv()
            try:
                answer = False, function(*arguments)
            except MemoryError:
                answer = True, RequestError(_TOO_MUCH, 413)
            except Exception as error:
                answer = True, error
            connection.send(answer)
            del function, arguments, answer
    except (EOFError, OSError):
        pass
