"""A slice of the atlas; `python -m atlas` walks it whole."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from atlas import judges
from atlas.cases import DRAWN, FAMILIES
from atlas.expected import EXPECTED
from atlas.operators import written
from atlas.walk import walk
from onnx_sparse.converters.onnxruntime.guards import guard

pytestmark = pytest.mark.pins(
    "OneNaN",
    "EachNaN",
    "FarPlaces",
    "PoolOfNaN",
    "IntegerPower",
    "BackwardSliceToTheLargest",
    "BackwardSliceFromBefore",
)

#: Operators of which ONNX Runtime as it is differs, and how many cases of each are walked: one of so many.
FAULTY = {"Sigmoid": 1, "Slice": 29, "Unique": 3, "GridSample": 41, "Pow": 5, "Softplus": 3, "LogSoftmax": 1}

#: The package whose answers are the truth for an operator; without it, the operator has no judge.
JUDGED_BY = {"GridSample": "torch"}


def test_each_operator_that_is_written_has_a_judge_or_a_reason() -> None:
    left = {op_type for several in judges.LEFT.values() for op_type in several}
    assert written() - {*FAMILIES, *DRAWN} == left & written()
    assert left.isdisjoint({*FAMILIES, *DRAWN})


@pytest.mark.parametrize("op_type", FAULTY)
def test_what_differs_is_cured_or_expected(op_type: str) -> None:
    pytest.importorskip(JUDGED_BY.get(op_type, "onnx"))
    found = walk(op_type, every=FAULTY[op_type])
    assert found.raw, "the slice has no faulty case"
    unexpected = [label for label in found.guarded if not any(each.holds(op_type, label) for each in EXPECTED)]
    assert {label: found.guarded[label] for label in unexpected} == {}


def test_a_missing_guard_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_sparse.converters.pipeline.passes.guard", lambda model, **options: [])
    assert walk("Sigmoid").guarded
    assert walk("Unique", every=3).guarded


def _sigmoids(nodes: list[onnx.NodeProto], weight: float = 1) -> int:
    """How many Sigmoids stay of a model whose weights are one number."""
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])]
    weights = onnx.numpy_helper.from_array(np.full((4, 4), weight, np.float32), "w")
    graph = helper.make_graph(nodes, "g", given, [onnx.ValueInfoProto(name="y")], [weights])
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
    )
    guard(model)
    return [node.op_type for node in model.graph.node].count("Sigmoid")


SWISH = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["p"])]


def test_a_swish_between_layers_stays() -> None:
    assert _sigmoids([*SWISH, helper.make_node("MatMul", ["p", "w"], ["y"])]) == 1


@pytest.mark.parametrize("reader", ["Log", "Identity", "Reciprocal"])
def test_a_swish_whose_small_values_are_seen_does_not(reader: str) -> None:
    assert _sigmoids([*SWISH, helper.make_node(reader, ["p"], ["y"])]) == 0


@pytest.mark.parametrize(("weight", "stays"), [(1, True), (100, True), (1e6, False)])
def test_a_gate_of_large_values_does_not_stay(weight: float, stays: bool) -> None:
    """Small values that are made large are seen also next to others in a sum."""
    gate = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["w", "s"], ["p"])]
    assert _sigmoids([*gate, helper.make_node("MatMul", ["p", "w"], ["y"])], weight) == stays
