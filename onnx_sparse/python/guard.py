"""Passing the errors of Python kernels from inside a run to its caller."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_sessions: weakref.WeakValueDictionary[int, Guard] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)
_this_thread = threading.local()


class Run:
    """One run of a session: the first error of its kernels, and the options that can stop it."""

    def __init__(self, guard: Guard, options: Any) -> None:
        self.options = options
        self.error: BaseException | None = None
        self._guard = guard
        guard.active.add(self)

    def fail(self, error: BaseException) -> None:
        """Keep the first error and have ONNX Runtime stop before the next node."""
        if self.error is None:
            self.error = error
            self.options.terminate = True

    def end(self) -> None:
        """End the run and give its options back to the caller."""
        self._guard.active.discard(self)
        if self.error is not None:
            self.options.terminate = False


class Guard:
    """The runs of one session. The session's nodes carry its number, so that kernels know which session they run in."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.active: set[Run] = set()
        _sessions[self.number] = self

    def begin(self, options: Any) -> Run:
        """A run that lasts until its `end`, on any thread."""
        return Run(self, options)

    @contextmanager
    def run(self, options: Any) -> Iterator[None]:
        """A run on this thread. Raises the error of its kernel instead of the error that ONNX Runtime made of it."""
        run = self.begin(options)
        outer = getattr(_this_thread, "run", None)
        _this_thread.run = run
        try:
            yield
        except Exception:
            if run.error is None:
                raise
        finally:
            _this_thread.run = outer
            run.end()
        if run.error is not None:
            raise run.error


def record_error(session: int, error: BaseException) -> None:
    """Fail the run that a kernel of a session belongs to.

    A kernel runs on the thread that called `run`, unless the session executes nodes in parallel or the run is
    asynchronous; then its run is not known, and every run of the session fails.
    """
    guard = _sessions.get(session)
    if guard is None:
        return
    run = getattr(_this_thread, "run", None)
    for failed in [run] if run in guard.active else list(guard.active):
        failed.fail(error)
