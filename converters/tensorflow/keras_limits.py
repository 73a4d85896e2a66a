"""Limits for what Keras does with a file that it believes: the weights that it makes, and the time that it takes."""

from __future__ import annotations

import ctypes
import math
import operator
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError

#: How many numbers the weights of any file may have. Layers may have some that they do not save.
_HARMLESS = 1 << 22

_WAY_OUT = "if this is right, load it with Keras and pass the model to convert()"

_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def weights_within(layer: Any, held: int | None, path: Path) -> Iterator[None]:
    """Refuse weights of this thread's layers that are far more than a file holds, before there is memory for them.

    A file's configuration gives the sizes: Keras believes them, and makes random weights, which can take more time
    than memory.

    Args:
        layer: The class of which all layers are, of either Keras.
        held: How many numbers the file holds; None where that is not known, and nothing is refused.
        path: The file.

    Raises:
        ConversionError: There are such weights, whatever Keras has made of what was raised where they were added.
    """
    if held is None:
        yield
        return
    add_weight, thread = layer.add_weight, threading.get_ident()
    most, made = _HARMLESS + 2 * held, 0
    refusal = ""

    def add_weight_within(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal made, refusal
        if threading.get_ident() == thread:
            # In Keras 2, a name comes first.
            given = (value for value in args if value is not None and not isinstance(value, str))
            made += _size(kwargs["shape"] if "shape" in kwargs else next(given, ()))
            if made > most:
                refusal = (
                    f"{path} cannot be read as a Keras model: its layers have {made} weights or more, but it holds "
                    f"{held}; {_WAY_OUT}"
                )
                raise ConversionError(refusal)
        return add_weight(self, *args, **kwargs)

    with _ONE_AT_A_TIME:
        layer.add_weight = add_weight_within
        try:
            yield
        except Exception as error:
            if refusal:
                raise ConversionError(refusal) from error
            raise
        finally:
            layer.add_weight = add_weight
    if refusal:
        raise ConversionError(refusal)


def _size(shape: Any) -> int:
    """The product of sizes; 0 for what is no shape, which Keras refuses."""
    try:
        return max(0, math.prod(operator.index(size) for size in (shape if isinstance(shape, Iterable) else [shape])))
    except TypeError:
        return 0


class _TimeIsUp(BaseException):
    """What ends a thread's work."""


@contextmanager
def time_within(seconds: float, path: Path) -> Iterator[None]:
    """Refuse a file when this thread has taken so much of the processor's time.

    Keras 2 goes round in a circle where layers wait for each other, and either Keras takes as many steps as a file
    says. Only what Python does can be ended.

    Args:
        seconds: The time.
        path: The file.

    Raises:
        ConversionError: The time is up.
    """
    thread, ended, firing = threading.get_ident(), threading.Event(), threading.Lock()
    clock = _clock(thread)
    end = clock() + seconds
    is_up = False

    def watch() -> None:
        nonlocal is_up
        while not ended.wait(1):  # again and again: Keras also catches what is no error
            with firing:
                if clock() > end and not ended.is_set():
                    is_up = True
                    _raise_time_is_up(thread)

    threading.Thread(target=watch, daemon=True, name="time of Keras").start()
    try:
        try:
            yield
        finally:
            ended.set()
            with firing:
                if is_up:
                    _let_it_come(thread)
    except _TimeIsUp as error:
        ended.set()
        raise ConversionError(
            f"{path} cannot be read as a Keras model: Keras takes more than {seconds:.0f} seconds of the processor for "
            f"it; {_WAY_OUT}"
        ) from error


def _clock(thread: int) -> Callable[[], float]:
    """The time of the processor that a thread has taken, in seconds; that of the process where threads have none."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


def _raise_time_is_up(thread: int) -> None:
    """Raise it in a thread, when that comes to do something in Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_TimeIsUp))


def _let_it_come(thread: int) -> None:
    """Let what may still be raised in this thread be raised here.

    Taking it back would be shorter, but where there is nothing to take back, Python 3.11 then never ends when it is
    traced, as by a debugger or for coverage.
    """
    with suppress(_TimeIsUp):
        _raise_time_is_up(thread)
        while True:
            pass
