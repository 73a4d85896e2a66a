"""Places in sorted rows."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import DType

_INT64 = TensorProto.INT64


def count_below(
    emit: Emitter, bounds: Tensor, x: Tensor, *, or_equal: bool, nan_first: bool = False, dtype: DType = _INT64
) -> Tensor:
    """How many of sorted numbers are below each number, or not above it; none of no numbers.

    Without `or_equal`, none is below NaN; with it, none is above NaN, so all count unless NaN comes first.

    Args:
        emit: Receives the nodes.
        bounds: The sorted numbers [..., n], in the type of x. Their front broadcasts to the shape of x.
        x: The numbers.
        or_equal: Whether equal ones count.
        nan_first: Whether none counts for NaN.
        dtype: The type of the counts.
    """
    column = emit.op("Unsqueeze", x, emit.constant([-1]))
    if or_equal and not nan_first:
        reached = emit.op("Not", emit.op("Less", column, bounds))
    else:
        reached = emit.op("LessOrEqual" if or_equal else "Less", bounds, column)
    return emit.op("ReduceSum", emit.cast(reached, dtype), emit.constant([-1]), keepdims=0)
