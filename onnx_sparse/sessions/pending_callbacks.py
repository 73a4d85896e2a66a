"""Keeps Python alive until the callbacks of asynchronous runs have been called.

ONNX Runtime calls them on threads of its own; one that calls into a Python that has ended takes the process down.
"""

from __future__ import annotations

import atexit
import os
import threading
import time

_count = 0
_changed = threading.Condition()


def add() -> None:
    """Say that a callback is to come."""
    global _count
    with _changed:
        if _count == 0:
            atexit.unregister(_wait)
            atexit.register(_wait)
        _count += 1


def remove() -> None:
    """Say that a callback has returned."""
    global _count
    with _changed:
        _count -= 1
        _changed.notify_all()


def _wait() -> None:
    with _changed:
        _changed.wait_for(lambda: _count == 0)
    time.sleep(0.01)  # the last of those threads has yet to leave Python


def _forget() -> None:
    """A forked child has none of the threads that call back."""
    global _count, _changed
    _count, _changed = 0, threading.Condition()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)
