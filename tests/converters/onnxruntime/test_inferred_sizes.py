"""Sizes that -1 stands for, in shapes that are put together in other ways than a constant."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_sparse
from onnx_sparse.converters.onnxruntime.guards import guard
from onnx_sparse.models.tools.onnx_tools import with_inferred_types


@pytest.mark.parametrize("between", [[], ["Reshape"], ["Identity"], ["Cast", "Reshape", "Cast"]])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_shape_that_is_joined_and_copied(between: list[str], rows: int) -> None:
    """As IRs of a pixel shuffle have it: 0 copies the number of rows, -1 is what remains."""
    name, nodes = "joined", [helper.make_node("Concat", ["copied", "rest"], ["joined"], axis=0)]
    for k, kind in enumerate(between):
        more = {"Cast": {"to": TensorProto.INT64 if k else TensorProto.INT32}}.get(kind, {})
        nodes.append(helper.make_node(kind, [name, *(["flat"] if kind == "Reshape" else [])], [f"copy{k}"], **more))
        name = f"copy{k}"
    nodes.append(helper.make_node("Reshape", ["x", name], ["y"]))
    constants = {"copied": [0, -1], "rest": [2, 2], "flat": [-1]}
    graph = helper.make_graph(
        nodes,
        "shuffle",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(value), key) for key, value in constants.items()],
    )
    model = with_inferred_types(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    guard(model)
    x = np.arange(rows * 24, dtype=np.float32).reshape(rows, 8, 3)
    (y,) = onnx_sparse.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_array_equal(y, x.reshape(rows, 6, 2, 2))
