"""Passing the errors of Python kernels from inside a run to its caller.

A kernel is told neither the session nor the run that it works for, and its thread does not tell it either: ONNX Runtime
runs nodes on threads of its own. So each run feeds its number to an input of the guarded model, which every guarded
kernel takes.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import onnxruntime as ort

_numbers = itertools.count(1)
_active: dict[int, Run] = {}
#: How many active runs use the same options, by the options' id.
_users: Counter[int] = Counter()
#: The options, by id, that a failed run has set to terminate.
_terminating: set[int] = set()
_changed = threading.Condition()


class Run:
    """One run of a session, from its `begin` to its `end`, on any threads.

    Attributes:
        number: Identifies the run in this process.
        options: The options that ONNX Runtime must be given; they can stop the run.
        error: The first error of its kernels.
    """

    def __init__(self, options: ort.RunOptions | None) -> None:
        self.number = next(_numbers)
        self.options = ort.RunOptions() if options is None else options
        self.error: BaseException | None = None

    def begin(self) -> None:
        """Begin the run, after failed ones with the same options have ended."""
        with _changed:
            _changed.wait_for(lambda: id(self.options) not in _terminating)
            _users[id(self.options)] += 1
            _active[self.number] = self

    def fail(self, error: BaseException) -> None:
        """Keep the first error, or the interrupt after it, and have ONNX Runtime stop before the next node.

        Options that other runs use, too, would stop those: then this run goes on to its end without its kernels.
        """
        with _changed:
            if self.error is not None and isinstance(error, Exception):
                return
            self.error = error
            if self.number in _active and _users[id(self.options)] == 1:
                self.options.terminate = True
                _terminating.add(id(self.options))

    def end(self) -> None:
        """End the run and give its options back to the caller."""
        with _changed:
            if _active.pop(self.number, None) is None:
                return
            _users[id(self.options)] -= 1
            if not _users[id(self.options)]:
                del _users[id(self.options)]
                if id(self.options) in _terminating:
                    self.options.terminate = False
                    _terminating.remove(id(self.options))
                    _changed.notify_all()

    def error_message(self) -> str:
        """What went wrong; "" where nothing did."""
        return "" if self.error is None else str(self.error) or type(self.error).__name__

    @contextmanager
    def raising(self) -> Iterator[None]:
        """The run lasts for the block; raises the error of its kernel instead of the one ONNX Runtime made of it."""
        try:
            with self._interruptible():
                self.begin()
                try:
                    yield
                finally:
                    self.end()
        except Exception:
            if self.error is None:
                raise
        if self.error is not None:
            raise self.error

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let Ctrl-C stop the run: raised in a kernel, KeyboardInterrupt would pass C++ and end the process."""
        if (
            threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        ):
            yield
            return
        signal.signal(signal.SIGINT, lambda *_: self.fail(KeyboardInterrupt()))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def active_run(number: int) -> Run:
    """The run of that number.

    Raises:
        KeyError: It has ended, or never was.
    """
    return _active[number]


def _forget_runs() -> None:
    """A forked child has none of the threads that the runs of its parent are on."""
    global _changed
    _changed = threading.Condition()
    _active.clear()
    _users.clear()
    _terminating.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_runs)
