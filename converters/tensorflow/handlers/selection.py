"""tf.raw_ops.Select and SelectV2, and the comparisons: tf2onnx's conversions change their results."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, handles

_SELECTED = ("condition", "t", "e")


@handles("SelectV2", inputs=_SELECTED, to="Where", dtypes=("all",))
def select(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """Where; arithmetic with a mask of zeros and ones would give NaN if an element that is not chosen is infinite."""
    return (emit.where(node["condition"], node["t"], node["e"]),)


@handles("Select", inputs=_SELECTED, to="Where", dtypes=("all",))
def select_rows(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """Where; a vector of conditions selects whole slices."""
    condition, chosen = node["condition"], node["t"]
    if condition.shape is None or chosen.shape is None:
        condition = _spread(condition, chosen, emit)
    elif len(condition.shape) == 1 and len(chosen.shape) > 1:
        axes = emit.constant(np.arange(1, len(chosen.shape)))
        condition = emit.standard("Unsqueeze", condition, axes, dtype=TensorProto.BOOL)
    return (emit.where(condition, chosen, node["e"]),)


def _spread(condition: Tensor, chosen: Tensor, emit: Emitter) -> Tensor:
    """The conditions with dimensions of 1 appended up to the rank of `chosen`; neither rank need be known."""
    dtype = TensorProto.INT64
    shapes = [emit.standard("Shape", tensor, dtype=dtype) for tensor in (chosen, condition)]
    missing = emit.standard("Sub", *(emit.standard("Shape", shape, dtype=dtype) for shape in shapes), dtype=dtype)
    one = helper.make_tensor("value", dtype, [1], [1])
    ones = emit.standard("ConstantOfShape", missing, dtype=dtype, value=one)
    target = emit.standard("Concat", shapes[1], ones, dtype=dtype, axis=0)
    return emit.standard("Reshape", condition, target, dtype=TensorProto.BOOL)


@handles("Less", "LessEqual", "Greater", "GreaterEqual", inputs=("x", "y"), to="Less", dtypes=("all numbers",))
def compare(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """Compare in the given type; in float32, different large integers would be equal."""
    op_type = {"LessEqual": "LessOrEqual", "GreaterEqual": "GreaterOrEqual"}.get(node.op_type, node.op_type)
    return (emit.standard(op_type, node["x"], node["y"], dtype=TensorProto.BOOL),)
