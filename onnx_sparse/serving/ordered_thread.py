"""A thread that does the smaller work first, so that what is large does not keep it waiting."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic as _now
from typing import Any, TypeVar

_R = TypeVar("_R")

#: How many bytes larger a piece of work is that waits as long as one that comes a second later.
_BYTES_PER_SECOND = 1 << 20


class OrderedThread:
    """Does one piece of work after another, in a thread.

    Work that comes later goes first if it is smaller by 1 MiB for each second. So everything has its turn.

    Args:
        name: The thread's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: list[tuple[float, int, Future[Any], Callable[[], Any]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def submit(self, size: int, work: Callable[[], _R]) -> Future[_R]:
        """Do some work, and return its result.

        Args:
            size: Its size in bytes.
            work: What is called.
        """
        made: Future[_R] = Future()
        with self._changed:
            turn = _now() + size / _BYTES_PER_SECOND
            heapq.heappush(self._waiting, (turn, next(self._numbers), made, work))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()
        return made

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                *_, future, work = heapq.heappop(self._waiting)
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            del future, work  # which may hold much memory while nothing is done
