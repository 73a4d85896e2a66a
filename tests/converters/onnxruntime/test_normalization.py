"""GroupNormalization of numbers far from 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

from onnx_sparse import InferenceSession
from onnx_sparse.converters.onnxruntime.guards import guard

GROUPS, CHANNELS = 2, 6


def guarded(dtype: Any, shape: list[Any], opset: int) -> ModelProto:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = [helper.make_tensor_value_info("x", element, shape)]
    inputs += [helper.make_tensor_value_info(name, element, [None]) for name in ("scale", "bias")]
    node = helper.make_node("GroupNormalization", ["x", "scale", "bias"], ["y"], num_groups=GROUPS, epsilon=1e-3)
    graph = helper.make_graph([node], "groups", inputs, [helper.make_tensor_value_info("y", element, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    assert {attempt.rule for attempt in guard(model) if attempt.fired} >= {"variance of groups"}
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("inner", [(5,), (2, 3), (1, 2, 2)])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_numbers_far_from_0(rows: int, inner: tuple[int, ...], dtype: Any, opset: int):
    """Before opset 21 each group has a scale and a bias, from then on each channel."""
    rng = np.random.default_rng(rows)
    x = (rng.standard_normal((rows, CHANNELS, *inner)) + 1000).astype(dtype)
    count = GROUPS if opset < 21 else CHANNELS
    scale, bias = (rng.standard_normal(count).astype(dtype) for _ in range(2))
    model = guarded(dtype, [None, CHANNELS, *[None] * len(inner)], opset)
    (got,) = InferenceSession(model).run(None, {"x": x, "scale": scale, "bias": bias})
    wide = x.astype(np.float64).reshape(rows, GROUPS, CHANNELS // GROUPS * int(np.prod(inner)))
    deviation = np.sqrt(wide.var(-1, keepdims=True) + 1e-3)
    normal = ((wide - wide.mean(-1, keepdims=True)) / deviation).reshape(x.shape)
    column = (1, CHANNELS, *[1] * len(inner))
    scale, bias = (np.repeat(each, CHANNELS // count).reshape(column) for each in (scale, bias))
    want = normal * scale + bias
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, atol=2e-2 if dtype == np.float16 else 1e-3)
