"""tf.raw_ops.Select and SelectV2, and the comparisons: tf2onnx's conversions change their results."""

from __future__ import annotations

from onnx import TensorProto, helper

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles

_SELECTED = ("condition", "t", "e")


@handles("SelectV2", inputs=_SELECTED, to="Where", dtypes=("all",))
def select(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Where; arithmetic with a mask of zeros and ones would give NaN if an element that is not chosen is infinite."""
    return (emit.op("Where", node["condition"], node["t"], node["e"]),)


@handles("Select", inputs=_SELECTED, to="Where", dtypes=("all",))
def select_rows(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Where; a vector of conditions selects whole slices."""
    condition, chosen = node["condition"], node["t"]
    if condition.shape is None or chosen.shape is None:
        condition = _spread(condition, chosen, emit)
    elif len(condition.shape) == 1 and len(chosen.shape) > 1:
        axes = emit.constant(range(1, len(chosen.shape)))
        condition = emit.op("Unsqueeze", condition, axes)
    return (emit.op("Where", condition, chosen, node["e"]),)


def _spread(condition: Tensor, chosen: Tensor, emit: Emitter) -> Tensor:
    """The conditions with dimensions of 1 appended up to the rank of `chosen`; neither rank need be known."""
    dtype = TensorProto.INT64
    shapes = [emit.shape_of(tensor) for tensor in (chosen, condition)]
    missing = emit.op("Sub", *(emit.shape_of(shape) for shape in shapes))
    one = helper.make_tensor("value", dtype, [1], [1])
    ones = emit.op("ConstantOfShape", missing, value=one)
    target = emit.op("Concat", shapes[1], ones, axis=0)
    return emit.op("Reshape", condition, target)


@handles("Less", "LessEqual", "Greater", "GreaterEqual", inputs=("x", "y"), to="Less", dtypes=("all numbers",))
def compare(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Compare in the given type; in float32, different large integers would be equal."""
    op_type = {"LessEqual": "LessOrEqual", "GreaterEqual": "GreaterOrEqual"}.get(node.op_type, node.op_type)
    return (emit.op(op_type, node["x"], node["y"]),)
