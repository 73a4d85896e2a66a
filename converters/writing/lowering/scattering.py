"""Elements and rows that are written by index."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


def scatter_elements(
    emit: Emitter, data: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str = "none"
) -> Tensor:
    """A tensor with updates at their indices along an axis, each reduced with what was there if asked for.

    Half floats are reduced in float32, for which ONNX Runtime has kernels, and rounded once. Negative indices count
    from the end; one that is out of range is an error. Of several updates of one place, which one stays is not defined
    without a reduction.
    """
    if reduction == "none":
        return emit.op("ScatterElements", data, indices, updates, shape=data.shape, axis=axis)
    return emit.in_float32(
        lambda x, y: emit.op("ScatterElements", x, indices, y, shape=x.shape, axis=axis, reduction=reduction),
        data,
        updates,
    )


def scatter_rows(emit: Emitter, data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Tensor:
    """A tensor whose slices along an axis are replaced: that at `indices[i]` by `updates[.., i, ..]`.

    The axes of the indices are in the updates at the place of the axis. Indices count as of `scatter_elements`.
    """
    places = emit.op("Unsqueeze", emit.cast(indices, TensorProto.INT64), emit.constant([-1]))
    if axis == 0:
        return emit.op("ScatterND", data, places, updates, shape=data.shape)
    rank, own = data.rank, indices.rank
    front = [axis, *(a for a in range(rank) if a != axis)]
    order = [*range(axis, axis + own), *range(axis), *range(axis + own, rank - 1 + own)]
    if order != sorted(order):
        updates = emit.op("Transpose", updates, perm=order)
    made = emit.op("ScatterND", emit.op("Transpose", data, perm=front), places, updates)
    return emit.op("Transpose", made, perm=[front.index(a) for a in range(rank)])
