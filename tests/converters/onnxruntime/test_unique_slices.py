"""Unique along every axis, of every combination of small sizes, where the rank is known and where it is not."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx_sparse.converters.onnxruntime.guards import guard

RANK = 3
KINDS = {TensorProto.FLOAT: np.float32, TensorProto.INT64: np.int64, TensorProto.STRING: object}


def session_of(axis, dtype, *, in_order, is_rank_known):
    """Unique of a tensor that is fed, or of one whose sizes are fed."""
    inputs = [helper.make_tensor_value_info("x", dtype, [None] * RANK)]
    inputs += [helper.make_tensor_value_info("sizes", TensorProto.INT64, [None])]
    names = ["values", "first", "inverse", "counts"]
    kinds = [dtype] + [TensorProto.INT64] * 3
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, kinds, strict=True)]
    source = helper.make_node("Identity", ["x"], ["z"])
    if not is_rank_known:
        source = helper.make_node("Reshape", ["x", "sizes"], ["z"], allowzero=1)
    node = helper.make_node("Unique", ["z"], names, axis=axis, sorted=int(in_order))
    graph = helper.make_graph([source, node], "graph", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    guard(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def expected(x, axis, *, in_order):
    """The slices, one by one, as lists of Python's values."""
    slices = [part.tolist() for part in np.moveaxis(x, axis, 0)]
    found = [part for k, part in enumerate(slices) if part not in slices[:k]]
    if in_order:
        found.sort()
    first = [slices.index(part) for part in found]
    values = np.take(x, first, axis) if found else x
    return values, first, [found.index(part) for part in slices], [slices.count(part) for part in found]


@pytest.mark.parametrize("is_rank_known", [True, False], ids=["known rank", "unknown rank"])
@pytest.mark.parametrize("axis", range(-RANK, RANK))
@pytest.mark.parametrize("dtype", KINDS, ids=["float", "int64", "string"])
def test_slices_of_every_small_size(dtype, axis, is_rank_known):
    rng = np.random.default_rng(0)
    for in_order in (False, True):
        session = session_of(axis, dtype, in_order=in_order, is_rank_known=is_rank_known)
        for sizes in itertools.product((0, 1, 2, 4), repeat=RANK):
            x = rng.integers(0, 2, sizes)
            x = x.astype(str).astype(object) if dtype == TensorProto.STRING else x.astype(KINDS[dtype])
            results = session.run(None, {"x": x, "sizes": np.array(sizes)})
            for name, got, wanted in zip(
                ("values", "first", "inverse", "counts"), results, expected(x, axis, in_order=in_order), strict=True
            ):
                np.testing.assert_array_equal(got, wanted, f"{name} of {x.tolist()} along {axis}")
