"""Reductions by segment that start from an infinity, as in torch and tf2onnx: that of no float is -inf or inf."""

from __future__ import annotations

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.tensor import Tensor

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
