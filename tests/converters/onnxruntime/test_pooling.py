"""Pooling of inputs around the size of a window, along several axes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from drawing.judges import judge
from onnx import TensorProto, helper
from support.comparison import difference
from support.drawn_nodes import Drawn
from support.random_nodes import convert

import onnx_sparse
from onnx_sparse.converters.onnxruntime.guards import guard
from onnx_sparse.converters.onnxruntime.pooling import PoolOfNaN


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "dilation"), [(2, 2, 0, 1), (5, 3, 0, 1), (5, 3, 1, 1), (4, 7, 0, 1), (3, 2, 0, 2)]
)
def test_as_many_results_as_windows_fit(op_type, kernel, stride, pad, dilation):
    """The number is the specification's: the size less the window's, divided by the stride, and one more."""
    given = {"kernel_shape": [kernel, 1], "strides": [stride, 1], "pads": [pad, 0, pad, 0]}
    if dilation > 1:
        given["dilations"] = [dilation, 1]
    node = helper.make_node(op_type, ["x"], ["y"], **given)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in "xy"]
    graph = helper.make_graph([node], "pooling", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    assert any(attempt.fired for attempt in guard(model))
    session = onnx_sparse.InferenceSession(model)
    window = dilation * (kernel - 1) + 1
    for size, width in itertools.product(range(max(1, window - stride + 1 - 2 * pad), window + stride + 1), (1, 3)):
        x = np.random.default_rng(size).standard_normal((2, 3, size, width)).astype(np.float32)
        (y,) = session.run(None, {"x": x})
        assert y.shape == (2, 3, max(0, (size + 2 * pad - window) // stride + 1), width)


def test_a_known_size_needs_no_guard():
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "pooling", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    assert not guard(model, omitted=[PoolOfNaN])


@pytest.mark.parametrize("op_type", ["AveragePool", "LpPool", "MaxPool"])
def test_results_are_as_many_as_windows_begin(op_type: str) -> None:
    """Of inputs that are shorter than a window, and of others; with `ceil_mode`, the last window may end beyond."""
    for size, kernel, stride, rounds_up in itertools.product(range(1, 7), (2, 3), (2, 3), (0, 1)):
        if size < kernel and rounds_up:
            continue  # ONNX does not say whether there is a window
        attributes = {"kernel_shape": [kernel], "strides": [stride], "ceil_mode": rounds_up}
        x = np.arange(1, size + 1, dtype=np.float32).reshape(1, 1, size)
        drawn = Drawn(op_type, {"x": x}, attributes, opset=22)
        model = drawn.model(np.random.default_rng(size))
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "n"
        (got,) = onnx_sparse.InferenceSession(convert(model)).run(None, {"x": x})
        (wanted,) = judge(drawn)
        assert not difference(wanted, got, 1e-5), (size, attributes)
