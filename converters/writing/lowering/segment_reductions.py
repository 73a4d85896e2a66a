"""Reductions by segment that start from an infinity, as in torch and tf2onnx: that of no float is -inf or inf.

Slices that are scattered with a reduction are such reductions, too.
"""

from __future__ import annotations

import numpy as np

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

#: What maxima and minima start from.
_INITIAL = {"Max": "NEG_INF", "Min": "POS_INF"}


def reduced_by_segment(emit: Emitter, kind: str, data: Tensor, ids: Tensor, count: Tensor) -> Tensor:
    """The rows of each segment, reduced; a maximum of no float is -inf, of no integer the type's lowest.

    Args:
        emit: Receives the nodes.
        kind: `Sum`, `Mean`, `Prod`, `Max` or `Min`.
        data: The rows [rows, ...].
        ids: The segment of each row, in any order; rows with a negative one are dropped.
        count: The number of segments, a scalar.
    """
    inputs = {"data": data, "segment_ids": ids, "num_segments": count}
    attributes = {"initial": _INITIAL[kind]} if kind in _INITIAL else {}
    (reduced,) = emit.domain_op(f"UnsortedSegment{kind}", inputs, attributes)
    return reduced


#: The reduction of the domain for that of a scatter, and the operator that merges its result with what was there.
SCATTERED = {"add": ("Sum", "Add"), "mul": ("Prod", "Mul"), "max": ("Max", "Max"), "min": ("Min", "Min")}


def scattered(
    emit: Emitter, reduction: str, shape: Tensor, indices: Tensor, updates: Tensor, start: Tensor | None = None
) -> Tensor:
    """What ONNX's ScatterND computes with a reduction.

    ONNX Runtime 1.32 runs that on several threads without a lock: of several updates of one place, some are lost.

    Args:
        emit: Receives the nodes.
        reduction: `add`, `mul`, `max` or `min`.
        shape: The shape of the result, int64 [rank].
        indices: The coordinates of each update, int64 [..., depth]; negative ones count from the end.
        updates: The updates [..., and the sizes of `shape` from `depth` on].
        start: What the updates are reduced into; when omitted, what the reduction of nothing is: zeros for `add`.

    Raises:
        Unsupported: The depth is 0.
    """
    depth = _depth(indices)
    end = emit.constant([np.iinfo(np.int64).max])
    at = emit.op("Slice", emit.shape_of(indices), emit.constant([-1]), end) if depth is None else emit.constant([depth])
    sizes = emit.op("Slice", shape, emit.constant([0]), at)
    count = emit.op("ReduceProd", sizes, keepdims=0, shape=())
    # The number of each place, which GatherND finds as ScatterND does: it refuses what is out of range.
    places = emit.op("Range", emit.constant(0), count, emit.constant(1))
    if depth != 1:
        places = emit.op("Reshape", places, sizes, allowzero=1)
    vector, rank = emit.constant([-1]), None if indices.shape is None else len(indices.shape)
    ids = emit.op("Reshape", emit.op("GatherND", places, indices), vector, shape=(None,))
    rows = updates
    if rank != 2:
        inner = emit.op("Slice", shape, at, end)
        rows = emit.op("Reshape", updates, emit.op("Concat", emit.shape_of(ids), inner, axis=0), allowzero=1)
    kind, merge = SCATTERED[reduction]
    reduced = reduced_by_segment(emit, kind, rows, ids, count)
    if depth != 1:
        reduced = emit.op("Reshape", reduced, shape, shape=None if start is None else start.shape, allowzero=1)
    return reduced if start is None else merged(emit, merge, start, reduced)


def merged(emit: Emitter, merge: str, start: Tensor, reduced: Tensor) -> Tensor:
    """What was there and a reduction of the same shape, by the operator of `SCATTERED`."""
    if merge in ("Max", "Min"):
        return emit.extreme(merge, start, reduced, shape=start.shape)
    return emit.op(merge, start, reduced, shape=start.shape)


def _depth(indices: Tensor) -> int | None:
    """The number of coordinates of a position; None if it is not known."""
    depth = indices.shape[-1] if indices.shape else None
    if depth == 0:
        raise Unsupported("positions have no coordinates")
    return depth
