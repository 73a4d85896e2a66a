"""Nodes that no kernel takes in any form: the message names the operator, the limit and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from support.random_nodes import convert

import onnx_sparse
from onnx_sparse.converters import ConversionError


def model(op_type: str, *inputs: tuple[int, Sequence[int]], opset: int = 20, **attributes: Any) -> onnx.ModelProto:
    names = [f"x{k}" for k in range(len(inputs))]
    node = helper.make_node(op_type, names, ["y"], name="node", **attributes)
    values = [helper.make_tensor_value_info(name, *given) for name, given in zip(names, inputs, strict=True)]
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name="y")])
    made = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])
    return onnx.shape_inference.infer_shapes(made)


FLOAT = TensorProto.FLOAT
VOLUME = [1, 1, 4, 4, 4]
REFUSED = [
    (
        model("GridSample", (FLOAT, VOLUME), (FLOAT, [1, 2, 2, 2, 3]), mode="cubic"),
        "'x0' has rank 5; ONNX Runtime's kernels of GridSample cubic take the ranks 4: reshape it",
    ),
    (
        model("MaxPool", (FLOAT, [*VOLUME, 4]), kernel_shape=[2] * 4),
        "'x0' has rank 6; ONNX Runtime's kernels of MaxPool take the ranks 3, 4, 5: reshape it",
    ),
    (
        model("GridSample", (TensorProto.STRING, [1, 1, 4, 4]), (FLOAT, [1, 2, 2, 2])),
        "'x0' is string; ONNX Runtime's kernels take float, float16, double: cast it in the source",
    ),
    (
        model("RoiAlign", (FLOAT, [1, 1, 4, 4]), (FLOAT, [2, 4]), (TensorProto.INT64, [2]), opset=22),
        "ONNX Runtime has no kernel of RoiAlign in operator set 22",
    ),
]


@pytest.mark.parametrize(("given", "reason"), REFUSED, ids=lambda each: each[:12] if isinstance(each, str) else "")
def test_a_conversion_refuses_it(given: onnx.ModelProto, reason: str) -> None:
    with pytest.raises(ConversionError) as caught:
        convert(given)
    (node,) = caught.value.unsupported
    assert (node.node, node.op_type, node.reason) == ("node", given.graph.node[0].op_type, reason)


@pytest.mark.parametrize(("given", "reason"), REFUSED, ids=lambda each: each[:12] if isinstance(each, str) else "")
def test_fuse_warns_of_it(given: onnx.ModelProto, reason: str) -> None:
    """The user's own model may be for another execution provider."""
    with pytest.warns(UserWarning, match="^node node") as warned:
        onnx_sparse.fuse(given)
    assert str(warned[0].message) == f"node node ({given.graph.node[0].op_type}): {reason}"


def test_a_node_in_a_branch_is_refused() -> None:
    body = model("MaxPool", (FLOAT, [*VOLUME, 4]), kernel_shape=[2] * 4)
    node = body.graph.node[0]
    branch = helper.make_graph([node], "branch", [], [helper.make_tensor_value_info("y", FLOAT, None)])
    choice = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    inputs = [*body.graph.input, helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph([choice], "g", inputs, [helper.make_tensor_value_info("z", FLOAT, None)])
    whole = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(ConversionError, match="'x0' has rank 6") as caught:
        convert(whole)
    assert [each.op_type for each in caught.value.unsupported] == ["MaxPool", "MaxPool"]
