"""Places in sorted rows."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import DType

_INT64 = TensorProto.INT64
_FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE)
#: So many numbers are compared at once: fewer nodes than a search.
_FEW = 16
#: The bits of the largest number of numbers, if the graph does not have it.
_BITS = 32


def count_below(
    emit: Emitter, bounds: Tensor, x: Tensor, *, or_equal: bool, nan_first: bool = False, dtype: DType = _INT64
) -> Tensor:
    """How many of sorted numbers are below each number, or not above it; none of no numbers.

    Without `or_equal`, none is below NaN; with it, none is above NaN, so all count unless NaN comes first. A NaN among
    the sorted numbers is the last, above all numbers. Memory grows with x, whatever the number of sorted numbers.

    Args:
        emit: Receives the nodes.
        bounds: The sorted numbers [..., n], in the type of x. Their front broadcasts to the shape of x.
        x: The numbers.
        or_equal: Whether equal ones count.
        nan_first: Whether none counts for NaN.
        dtype: The type of the counts.
    """
    reaches = "LessOrEqual" if or_equal else "Less"
    count = bounds.dim(-1)
    total = emit.constant(count) if count is not None else emit.scalar(emit.size(bounds, -1))
    past_all = or_equal and not nan_first and x.dtype in _FLOATS
    if count is not None and count <= _FEW:
        column = emit.op("Unsqueeze", x, emit.constant([-1]))
        if past_all and bounds.value is not None and not np.isnan(bounds.value).any():
            reached, past_all = emit.op("Not", emit.op("Less", column, bounds)), False  # so is each by NaN
        else:
            reached = emit.op(reaches, bounds, column)
        found = emit.op("ReduceSum", emit.cast(reached, _INT64 if past_all else dtype), emit.constant([-1]), keepdims=0)
    else:
        found = _searched(emit, bounds, x, total, reaches)
    if past_all:
        found = emit.op("Where", emit.op("IsNaN", x), total, found)
    return emit.cast(found, dtype)


def _searched(emit: Emitter, bounds: Tensor, x: Tensor, total: Tensor, reaches: str) -> Tensor:
    """Binary search: how many sorted numbers each one reaches is known by one bit more in each step."""
    # The k-th number of a row is at k in what begins with a number of no row, which no numbers need.
    numbers = emit.op("Concat", emit.constant([0], x.dtype), emit.op("Reshape", bounds, emit.constant([-1])), axis=0)
    begins = None
    if bounds.shape is None or len(bounds.shape) > 1:
        front = emit.shape_of(bounds, 0, -1)
        row = emit.op("Range", emit.constant(0), emit.op("ReduceProd", front, keepdims=0), emit.constant(1))
        begins = emit.op("Reshape", emit.op("Mul", row, total), front, allowzero=1)
    found = emit.constant(0)
    for bit in reversed(range(_BITS if total.value is None else int(total.value).bit_length())):
        more = emit.op("Add", found, emit.constant(2**bit))
        place = emit.op("Min", more, total)  # beyond the last one it counts whether that is reached: then all are
        if begins is not None:
            place = emit.op("Add", place, begins)
        reached = emit.op(reaches, emit.op("Gather", numbers, place, axis=0), x)
        found = emit.op("Where", reached, more, found)
    return emit.op("Min", found, total)
