"""Passing the errors of Python kernels from inside a run to its caller.

A kernel is told neither the session nor the run that it works for, and its thread does not tell it either: ONNX Runtime
runs nodes on threads of its own. So each run feeds its number to an input of the guarded model, which every guarded
kernel takes.

Python calls signal handlers between any two instructions of the main thread, those of a kernel and of
onnxruntime-extensions included, and an exception that passes C++ ends the process. So the handlers are held during a
run: they are called when their signal comes, and what they raise is kept and raised when the run has returned.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading

# signal.getsignal makes an enum of each answer, which takes 30 us for all signals.
from _signal import getsignal  # type: ignore[import-not-found]
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import onnxruntime as ort

_numbers = itertools.count(1)
_active: dict[int, Run] = {}
#: How many active runs use the same options, by the options' id.
_users: Counter[int] = Counter()
#: The options, by id, that a failed run has set to terminate.
_terminating: set[int] = set()
_changed = threading.Condition()

#: How many frames a kernel may need besides those of its computation, whose errors it catches.
_FRAMES_OF_A_KERNEL = 40

#: A signal handler in Python.
_Handler = Callable[[int, FrameType | None], object]

_SIGNALS = sorted(int(number) for number in signal.valid_signals())


class Run:
    """One run of a session, from its `begin` to its `end`, on any threads.

    Attributes:
        number: Identifies the run in this process.
        options: The options that ONNX Runtime must be given; they can stop the run.
        error: The first error of its kernels, or what a signal handler has raised.
        holds_handlers: Whether an exception of a signal handler would pass C++, so that it must be kept.
    """

    def __init__(self, options: ort.RunOptions | None) -> None:
        self.number = next(_numbers)
        self.options = ort.RunOptions() if options is None else options
        self.error: BaseException | None = None
        self.holds_handlers = False

    def begin(self) -> None:
        """Begin the run, after failed ones with the same options have ended."""
        with _changed:
            _changed.wait_for(lambda: id(self.options) not in _terminating)
            _users[id(self.options)] += 1
            _active[self.number] = self

    def fail(self, error: BaseException) -> None:
        """Keep the first error, and have ONNX Runtime stop before the next node."""
        with _changed:
            if self.error is None or not isinstance(error, Exception):
                self._stop(error)

    def interrupt(self, error: BaseException) -> None:
        """Keep what a signal handler has raised, also after an error of a kernel, and stop as after one."""
        with _changed:
            if self.error is None or isinstance(self.error, Exception):
                self._stop(error)

    def _stop(self, error: BaseException) -> None:
        """Options that other runs use, too, would stop those: then this run goes on to its end without its kernels."""
        with _changed:
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
        """The run lasts for the block; raises the error of its kernel instead of the one ONNX Runtime made of it.

        Raises:
            RecursionError: The stack has no room for a kernel.
        """
        _require_frames(_FRAMES_OF_A_KERNEL)
        try:
            with self._handlers_held():
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
    def _handlers_held(self) -> Iterator[None]:
        """Keep what signal handlers raise in the block; they run on the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        held: list[_HeldHandler] = []
        try:
            for number, handler in _python_handlers():
                held.append(_HeldHandler(self, number, handler))
                signal.signal(number, held[-1])
            self.holds_handlers = True
            yield
        finally:
            # From here on handlers raise again, also those that one of them keeps from being put back.
            self.holds_handlers = False
            for each in held:
                each.put_back()


class _HeldHandler:
    """A signal handler in the place of another, which it calls; during the run it keeps what that one raises."""

    def __init__(self, run: Run, number: int, handler: _Handler) -> None:
        self._run = run
        self._number = number
        self._previous: Any = handler
        # A handler may itself run a session: then the exception is raised in the handler, and from there in the run.
        self._handler: _Handler = handler._handler if isinstance(handler, _HeldHandler) else handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self._run.holds_handlers:
            self._handler(number, frame)
            return
        try:
            self._handler(number, frame)
        except BaseException as error:
            self._run.interrupt(error)

    def put_back(self) -> None:
        """Put the handler back, unless one has been set since."""
        if getsignal(self._number) is self:
            signal.signal(self._number, self._previous)


def _python_handlers() -> list[tuple[int, _Handler]]:
    """The signals with a handler in Python."""
    handlers = ((number, getsignal(number)) for number in _SIGNALS)
    return [(number, handler) for number, handler in handlers if callable(handler)]


def _require_frames(count: int) -> None:
    """Raise RecursionError here rather than in a kernel, where it would pass C++."""
    if count:
        _require_frames(count - 1)


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
