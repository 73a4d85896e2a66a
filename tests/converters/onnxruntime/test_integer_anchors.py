"""Each operator that the guards of integers name, at the ends of its element types, which examples leave out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper

from onnx_sparse import fuse

LEAST = {"int32": -(2**31), "int64": -(2**63)}


def guarded(op_type: str, dtype: str, given: Iterable[str], **attributes: Any) -> ModelProto:
    """A model of a node with inputs of any size, once it is guarded."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = [helper.make_tensor_value_info(name, element, [None]) for name in given]
    node = helper.make_node(op_type, list(given), ["result"], name="node", **attributes)
    outputs = [helper.make_tensor_value_info("result", element, None)]
    graph = helper.make_graph([node], "g", inputs, outputs)
    return fuse(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))


def run(op_type: str, dtype: str, given: dict[str, Any], **attributes: Any) -> Any:
    """What it computes."""
    model = guarded(op_type, dtype, given, **attributes)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {name: np.array(values, dtype) for name, values in given.items()})[0]


@pytest.mark.parametrize("dtype", LEAST)
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_the_least_integer(dtype: str, fmod: int) -> None:
    """That of -1 is 0, and no overflow, which would end the process."""
    x, y = [LEAST[dtype], 7, -7, LEAST[dtype]], [-1, 3, 3, 5]
    expected = np.fmod(np.array(x, dtype), y) if fmod else np.mod(np.array(x, dtype), y)
    np.testing.assert_array_equal(run("Mod", dtype, {"x": x, "y": y}, fmod=fmod), expected)


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_nothing_is_divided_by_minus_one(op_type: str) -> None:
    """Whether the process ends depends on how ONNX Runtime was compiled."""
    (node,) = (node for node in guarded(op_type, "int64", "xy").graph.node if node.op_type == op_type)
    assert node.input[1] != "y"


@pytest.mark.parametrize("dtype", LEAST)
def test_quotients_of_the_least_integer(dtype: str) -> None:
    got = run("Div", dtype, {"x": [LEAST[dtype], 7, -7], "y": [-1, 2, 2]})
    np.testing.assert_array_equal(got, [LEAST[dtype], 3, -3])


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceL1", "ReduceSumSquare"])
@pytest.mark.parametrize("dtype", LEAST)
def test_sums_wrap(op_type: str, dtype: str) -> None:
    """ONNX Runtime adds in floating point, and ends at the largest integer."""
    values = [-LEAST[dtype] - 1, 3, -LEAST[dtype] - 12, 5]
    terms = [v * v for v in values] if op_type == "ReduceSumSquare" else values
    span = -2 * LEAST[dtype]
    expected = (sum(terms) - LEAST[dtype]) % span + LEAST[dtype]
    assert run(op_type, dtype, {"x": values}, keepdims=0).item() == expected
