"""Elements of one tensor or another, by conditions."""

from __future__ import annotations

from onnx import TensorProto, helper

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


def select_rows(emit: Emitter, condition: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    """Where; a vector of conditions selects whole slices."""
    if condition.shape is None or chosen.shape is None:
        condition = _spread(emit, condition, chosen)
    elif len(condition.shape) == 1 and len(chosen.shape) > 1:
        axes = emit.constant(range(1, len(chosen.shape)))
        condition = emit.op("Unsqueeze", condition, axes)
    return emit.op("Where", condition, chosen, other)


def _spread(emit: Emitter, condition: Tensor, chosen: Tensor) -> Tensor:
    """The conditions with dimensions of 1 appended up to the rank of `chosen`; neither rank need be known."""
    dtype = TensorProto.INT64
    shapes = [emit.shape_of(tensor) for tensor in (chosen, condition)]
    missing = emit.op("Sub", *(emit.shape_of(shape) for shape in shapes))
    one = helper.make_tensor("value", dtype, [1], [1])
    ones = emit.op("ConstantOfShape", missing, value=one)
    target = emit.op("Concat", shapes[1], ones, axis=0)
    return emit.op("Reshape", condition, target)
