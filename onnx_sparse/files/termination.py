"""Signals that end the process, while there are files that must be removed first."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

#: Those that end a process without a word to Python; Windows lacks SIGHUP.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class TerminatedError(BaseException):
    """A signal asks the process to end; like KeyboardInterrupt, it is no error that a command could handle.

    Attributes:
        exit_code: The status to exit with, as shells report a signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextlib.contextmanager
def termination_raised() -> Iterator[None]:
    """Raise `TerminatedError` for these signals, so that the block cleans up.

    Only around the parts of a command that leave files: Python sees a signal after a call into C++, however long.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    changed = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in changed:
            signal.signal(number, _raise)
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Processes that are started in the block never see Ctrl-C; this one sees it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _raise(number: int, _: FrameType | None) -> None:
    for other in _SIGNALS:  # another one would end the cleaning up
        if signal.getsignal(other) is _raise:
            signal.signal(other, signal.SIG_IGN)
    raise TerminatedError(number)
