"""Large work waits for small work, and everything has its turn."""

from __future__ import annotations

import threading

import pytest

from onnx_sparse.serving import ordered_thread
from onnx_sparse.serving.ordered_thread import OrderedThread


def order_of(sizes: list[int]) -> list[int]:
    """The order in which work of some sizes is done that waits at once."""
    thread, begin, done = OrderedThread("test"), threading.Event(), list[int]()
    first = thread.submit(0, begin.wait)
    waiting = [thread.submit(size, lambda size=size: done.append(size)) for size in sizes]
    begin.set()
    for each in (first, *waiting):
        each.result(60)
    return done


def test_the_smaller_goes_first() -> None:
    assert order_of([64 << 20, 16 << 20, 1 << 20, 32 << 20]) == [1 << 20, 16 << 20, 32 << 20, 64 << 20]


def test_the_larger_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that came two seconds earlier goes first if it is larger by 1 MiB."""
    now = iter(range(0, 100, 2))
    monkeypatch.setattr(ordered_thread, "_now", lambda: float(next(now)))
    assert order_of([3 << 20, 2 << 20, 1 << 20]) == [3 << 20, 2 << 20, 1 << 20]


def test_errors_are_those_of_the_work() -> None:
    thread = OrderedThread("test")
    with pytest.raises(ZeroDivisionError):
        thread.submit(1, lambda: 1 // 0).result(60)
    assert thread.submit(1, lambda: 5).result(60) == 5
