"""An axis moved to the front of a tensor, and back, where its rank may not be known."""

from __future__ import annotations

import numpy as np

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_END = np.iinfo(np.int64).max


def to_front(emit: Emitter, data: Tensor, axis: int, rank: int | None = None) -> Tensor:
    """A tensor with an axis moved to the front.

    Args:
        emit: Writes the nodes.
        data: The tensor.
        axis: The axis; a negative one counts from the end.
        rank: The rank, where it is known otherwise than by the tensor.
    """
    rank = data.rank if rank is None and data.shape is not None else rank
    if not axis:
        return data
    if rank is None:
        return _boxed(emit, data, axis, back=False)
    order = [axis % rank, *(k for k in range(rank) if k != axis % rank)]
    shape = None if data.shape is None else tuple(data.shape[k] for k in order)
    return emit.op("Transpose", data, perm=order, shape=shape)


def from_front(emit: Emitter, data: Tensor, axis: int, rank: int | None = None) -> Tensor:
    """A tensor with its first axis moved to where `to_front` has taken it from; the arguments are those."""
    rank = data.rank if rank is None and data.shape is not None else rank
    if not axis:
        return data
    if rank is None:
        return _boxed(emit, data, axis, back=True)
    order = [*range(1, rank)]
    order.insert(axis % rank, 0)
    return emit.op("Transpose", data, perm=order)


def _boxed(emit: Emitter, data: Tensor, axis: int, *, back: bool) -> Tensor:
    """A tensor of any rank with an axis moved to the front, or from there: transposed as a box of three axes."""
    zero, one, end, sizes = emit.constant([0]), emit.constant([1]), emit.constant([_END]), emit.shape_of(data)
    others = emit.op("Slice", sizes, one, end) if back else sizes
    first = axis if axis >= 0 or not back else axis + 1
    past = first if back else first + 1
    before = others if first == 0 and axis < 0 else emit.op("Slice", others, zero, emit.constant([first]))
    after = emit.op("Slice", others, end if past == 0 and axis < 0 else emit.constant([past]), end)
    front = emit.op("Slice", sizes, zero, one) if back else emit.op("Gather", sizes, emit.constant([axis]))
    parts = [emit.op("ReduceProd", part, keepdims=1) for part in (before, after)]
    box = [front, *parts] if back else [parts[0], front, parts[1]]
    shape = [before, front, after] if back else [front, before, after]
    boxed = emit.op("Reshape", data, emit.op("Concat", *box, axis=0), allowzero=1, shape=(None, None, None))
    turned = emit.op("Transpose", boxed, perm=[1, 0, 2])
    return emit.op("Reshape", turned, emit.op("Concat", *shape, axis=0), allowzero=1)
