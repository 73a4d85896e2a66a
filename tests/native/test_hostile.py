"""Some hostile bytes of each kind; `python -m native.hostile` gives more, and nightly with the address sanitizer."""

from __future__ import annotations

import numpy as np
import pytest
from native import hostile

from onnx_sparse import KernelError
from onnx_sparse.serving import long_lists


def test_hostile_bytes() -> None:
    counts = hostile.examine(seed=0, first=0, count=1500)
    for kind in hostile.KINDS:
        taken = counts[f"{kind.__name__} answered"] + counts[f"{kind.__name__} legal"]
        assert taken > 20, counts
        assert counts[f"{kind.__name__} refused"] > 20, counts


def test_a_list_that_ends_before_it_begins() -> None:
    assert long_lists._find(np.frombuffer(b"]" + b"1,2]" * 9, np.uint8)) == (0, ())


def test_a_position_of_another_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(name: str, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [np.zeros(len(inputs["queries"]), np.int64)]

    monkeypatch.setattr(hostile, "run", run)
    with pytest.raises(AssertionError, match=r"--seed 0 --first \d+ --count 1: index"):
        hostile.examine(seed=0, first=0, count=100)


def test_an_error_without_the_name_of_its_operator_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(name: str, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        raise KernelError("bad")

    monkeypatch.setattr(hostile, "run", run)
    with pytest.raises(AssertionError, match="index: bad"):
        hostile.examine(seed=0, first=0, count=100)
