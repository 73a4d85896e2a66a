"""Nodes that are computed while a model is converted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from onnx_sparse.converters.writing import folding

MOST = 100
OPSETS = {"": 18}

#: Few numbers that ask for a lot, and the same for a little.
LARGE_AND_SMALL: dict[str, tuple[list[Any], list[Any], dict[str, Any]]] = {
    "Range": ([0, 2**40, 1], [5, -5, -3], {}),
    "Expand": ([[1.0], [2**20, 2**20]], [[[1.0], [2.0]], [1, 3]], {}),
    "Tile": ([[1.0], [2**40]], [[[1.0, 2.0]], [2, 3]], {}),
    "Gather": ([np.zeros((1, 90)), np.zeros((90, 90), np.int64)], [np.arange(6).reshape(2, 3), [2, 0]], {"axis": 1}),
    "Add": ([np.zeros((90, 1, 1)), np.zeros((1, 90, 90))], [[[1], [2]], [3, 4]], {}),
    "Where": ([np.zeros((90, 1), bool), np.zeros((1, 90)), [1.0]], [[True, False], [[1], [2]], [3]], {}),
    "Concat": ([np.zeros(60), np.zeros(60)], [[1, 2], [3]], {"axis": 0}),
}


def out_of_memory(*_: Any, **__: Any) -> None:
    raise MemoryError


@pytest.mark.parametrize("op", LARGE_AND_SMALL)
def test_what_is_too_large_is_not_made(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    large, small, attributes = LARGE_AND_SMALL[op]
    node = helper.make_node(op, [f"x{k}" for k in range(len(small))], ["y"], **attributes)
    given = {f"x{k}": np.asarray(value) for k, value in enumerate(small)}
    got = folding.folded(node, given, OPSETS, MOST)
    assert got is not None
    assert got.tolist() == ReferenceEvaluator(node, opsets=OPSETS).run(None, given)[0].tolist()
    if op != "Concat":  # which makes no more than there is
        monkeypatch.setattr(folding, "ReferenceEvaluator", out_of_memory)
    assert folding.folded(node, {f"x{k}": np.asarray(value) for k, value in enumerate(large)}, OPSETS, MOST) is None


def test_what_cannot_be_computed() -> None:
    node = helper.make_node("Add", ["a", "b"], ["y"])
    assert folding.folded(node, {"a": np.zeros(2), "b": np.zeros(3)}, OPSETS, MOST) is None


def test_memory_that_runs_out_is_no_reason_to_make_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "ReferenceEvaluator", out_of_memory)
    with pytest.raises(MemoryError):
        folding.folded(helper.make_node("Neg", ["x"], ["y"]), {"x": np.zeros(2)}, OPSETS, MOST)
