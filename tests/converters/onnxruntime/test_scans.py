"""Scans along every axis, of every combination of small sizes."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx_sparse.converters.onnxruntime.guards import guard

SIZES = (0, 1, 2)


def session_of(input_axis, output_axis, directions, *, is_rank_known, dtype=TensorProto.FLOAT):
    """A running sum of the elements along an axis: `last`, and `y` of which each element is twice the sum."""
    values = [
        helper.make_tensor_value_info(name, dtype, [None, None]) for name in ("state", "element", "next", "twice")
    ]
    nodes = [helper.make_node("Add", ["state", "element"], ["next"]), helper.make_node("Add", ["next"] * 2, ["twice"])]
    body = helper.make_graph(nodes, "step", values[:2], values[2:])
    node = helper.make_node(
        "Scan",
        ["start", "z"],
        ["last", "y"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[input_axis],
        scan_output_axes=[output_axis],
        scan_input_directions=[directions[0]],
        scan_output_directions=[directions[1]],
    )
    given = {"start": 2, "x": 3, "sizes": 1}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name == "sizes" else dtype, [None] * rank)
        for name, rank in given.items()
    ]
    outputs = [helper.make_tensor_value_info(name, dtype, None) for name in ("last", "y")]
    source = helper.make_node("Identity", ["x"], ["z"])
    if not is_rank_known:
        source = helper.make_node("Reshape", ["x", "sizes"], ["z"], allowzero=1)
    graph = helper.make_graph([source, node], "graph", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    guard(model)
    return onnxruntime.InferenceSession(model.SerializeToString())


def expected(start, x, input_axis, output_axis, directions):
    steps = np.moveaxis(x, input_axis, 0)[:: -1 if directions[0] else 1]
    results, state = np.zeros((0, *start.shape), x.dtype), start
    for element in steps:
        state = state + element
        results = np.concatenate([results, [2 * state]])
    return state, np.moveaxis(results[:: -1 if directions[1] else 1], 0, output_axis)


@pytest.mark.parametrize("is_rank_known", [True, False], ids=["rank known", "rank unknown"])
@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (0, 1)], ids=["forward", "from the end", "to the front"])
@pytest.mark.parametrize(("input_axis", "output_axis"), [*itertools.product((0, 1, -1), (0, 1, -2))])
def test_axes_and_sizes(input_axis, output_axis, directions, is_rank_known):
    session = session_of(input_axis, output_axis, directions, is_rank_known=is_rank_known)
    for shape in itertools.product(SIZES, repeat=3):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        start = np.full(np.moveaxis(x, input_axis, 0).shape[1:], 0.5, np.float32)
        wanted = expected(start, x, input_axis, output_axis, directions)
        for want, got in zip(
            wanted, session.run(None, {"start": start, "x": x, "sizes": np.array(shape)}), strict=True
        ):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.float64])
def test_element_types_of_no_steps(dtype):
    session = session_of(0, 0, (0, 0), is_rank_known=True, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    start, x = np.array([[1, 2]], dtype), np.zeros((0, 1, 2), dtype)
    last, each = session.run(None, {"start": start, "x": x, "sizes": np.array(x.shape)})
    np.testing.assert_array_equal(last, start)
    assert each.shape == x.shape
