"""Slices by number, which may have dimensions in common with what they are taken from."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.writing.emitter import Emitter


def gathered(emit: Emitter, params: Tensor, indices: Tensor, axis: int, batch: int) -> Tensor:
    """The slices of `params` along an axis, by their numbers, which have `batch` dimensions in common with it.

    Negative numbers count from the end; a number that is out of range, also within a batch, is an error.

    Raises:
        Unsupported: The dimensions in common are not before the axis, or differ.
    """
    if indices.dtype not in (TensorProto.INT32, TensorProto.INT64):
        indices = emit.cast(indices, TensorProto.INT64)
    axis = axis if params.shape is None else params.axis(axis)
    if batch == 0:
        return emit.op("Gather", params, indices, axis=axis, shape=_shape(params, indices, axis, 0))
    batch = batch + indices.rank if batch < 0 else batch
    axis = params.axis(axis)
    fits = 0 <= batch <= min(axis, indices.rank)
    common = zip((params.shape or ())[:batch], (indices.shape or ())[:batch], strict=False)
    if not fits or any(one != other and None not in (one, other) for one, other in common):
        raise Unsupported(f"batch_dims = {batch} does not fit {params}, {indices} and axis {axis}")
    between = list(range(batch, axis))
    shape = _shape(params, indices, axis, batch)
    if between:  # bring the axis behind the batch
        rest = [d for d in range(params.rank) if d >= batch and d != axis]
        order = [*range(batch), axis, *rest]
        moved = None if params.shape is None else tuple(params.shape[d] for d in order)
        params = emit.op("Transpose", params, perm=order, shape=moved)
    known = None if indices.shape is None else (*indices.shape, 1)
    places = emit.op("Unsqueeze", emit.cast(indices, TensorProto.INT64), emit.constant([-1]), shape=known)
    if not between:
        return emit.op("GatherND", params, places, batch_dims=batch, shape=shape)
    own = indices.rank - batch  # the new dimensions, which belong behind those between batch and axis
    rank = params.rank - 1 + own
    order = [*range(batch), *range(batch + own, batch + own + len(between)), *range(batch, batch + own)]
    order += range(batch + own + len(between), rank)
    before = None if shape is None else tuple(shape[order.index(d)] for d in range(rank))
    found = emit.op("GatherND", params, places, batch_dims=batch, shape=before)
    return emit.op("Transpose", found, perm=order, shape=shape)


def _shape(params: Tensor, indices: Tensor, axis: int, batch: int) -> Shape | None:
    if params.shape is None or indices.shape is None:
        return None
    return (*params.shape[:axis], *indices.shape[batch:], *params.shape[axis + 1 :])
