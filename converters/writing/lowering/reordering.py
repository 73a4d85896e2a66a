"""Elements in reverse, borders that mirror, and elements that are rolled. They are moved, not computed with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_FIRST = np.iinfo(np.int64).min


def reversed_along(emit: Emitter, x: Tensor, axes: Sequence[int], start: int = -1, end: int = _FIRST) -> Tensor:
    """The elements from last to first along axes, or from a start to before an end; no axes leave it as it is.

    Raises:
        Unsupported: The tensor has no such axis.
    """
    if x.shape is not None:
        axes = [x.axis(axis) for axis in axes]
    if not axes:
        return x
    bounds = [emit.constant([each] * len(axes)) for each in (start, end)]
    return emit.op("Slice", x, *bounds, emit.constant(list(axes)), emit.constant([-1] * len(axes)))


def mirrored(emit: Emitter, x: Tensor, pairs: Sequence[Sequence[int]], *, symmetric: bool) -> Tensor:
    """A tensor with borders that mirror it, with its outermost elements if `symmetric`, else without.

    Args:
        emit: Receives the nodes.
        x: The tensor.
        pairs: How wide the border is before and after, for each axis.
        symmetric: Whether the outermost elements come twice.

    Raises:
        Unsupported: There is not a pair for each axis, or one is negative.
    """
    if (x.shape is not None and len(pairs) != len(x.shape)) or min((min(pair) for pair in pairs), default=0) < 0:
        raise Unsupported(f"paddings {[*pairs]} do not fit {x}")
    inner = 0 if symmetric else 1
    for axis, (before, after) in enumerate(pairs):
        parts = [x]
        if before:
            parts.insert(0, reversed_along(emit, x, [axis], before - 1 + inner, 0 if inner else _FIRST))
        if after:
            parts.append(reversed_along(emit, x, [axis], -1 - inner, -1 - inner - after))
        if len(parts) > 1:
            x = emit.op("Concat", *parts, axis=axis)
    return x


def rolled(emit: Emitter, x: Tensor, shifts: Sequence[Tensor], axes: Sequence[int]) -> Tensor:
    """Elements moved along axes by numbers of any size; those that leave at one end enter at the other.

    Args:
        emit: Receives the nodes.
        x: The tensor.
        shifts: How far, int64 [1] for each axis; negative ones move toward the front.
        axes: The axes, of which one may come twice.
    """
    for shift, axis in zip(shifts, axes, strict=True):
        shape = x.shape
        # The remainder by a size of 0 would be an error.
        size = emit.op("Max", emit.count(x, axis), emit.constant([1]), shape=(1,))
        left = emit.op("Mod", emit.op("Neg", shift, shape=(1,)), size, shape=(1,))
        along, zero, far = emit.constant([axis]), emit.constant([0]), emit.constant([2**62])
        parts = (emit.op("Slice", x, start, end, along) for start, end in ((left, far), (zero, left)))
        x = emit.op("Concat", *parts, axis=axis, shape=shape)
    return x


def reverse_sequence(emit: Emitter, x: Tensor, lengths: Tensor, *, batch: int, time: int) -> Tensor:
    """The first elements of each row from last to first, as many as its length says; the others stay.

    Args:
        emit: Receives the nodes.
        x: The rows.
        lengths: The length of each row, integers; one beyond the axis is an error.
        batch: The axis of the rows.
        time: The axis along which they are reversed. ONNX has both before all others.
    """
    lengths = emit.cast(lengths, TensorProto.INT64)
    if {batch, time} == {0, 1}:
        return emit.op("ReverseSequence", x, lengths, batch_axis=batch, time_axis=time)
    front = [x.axis(batch), x.axis(time)]
    order = front + [axis for axis in range(x.rank) if axis not in front]
    moved = emit.op("ReverseSequence", emit.op("Transpose", x, perm=order), lengths, batch_axis=0, time_axis=1)
    return emit.op("Transpose", moved, perm=[order.index(axis) for axis in range(x.rank)])
