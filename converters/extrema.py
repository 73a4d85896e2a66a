"""Maxima and minima by segment, of which those of no element are infinite."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.schemas.declaration import FLOATS, DType

#: The types in which maxima and minima are found: the result for no element, and for -inf only, is their lowest finite
#: number, which none of the elements can be; a Cast back makes it -inf.
_WIDER: dict[DType, DType] = {
    TensorProto.FLOAT16: TensorProto.FLOAT,
    TensorProto.BFLOAT16: TensorProto.DOUBLE,
    TensorProto.FLOAT: TensorProto.DOUBLE,
}


def extremum_by_segment(emit: Emitter, kind: str, data: Tensor, ids: Tensor, count: Tensor) -> Tensor:
    """The maximum or minimum of each segment; that of no float is -inf or inf, of no integer the type's limit.

    Args:
        emit: Receives the nodes.
        kind: `Max` or `Min`.
        data: The rows [rows, ...].
        ids: The segment of each row, in any order; rows with a negative one are dropped.
        count: The number of segments, a scalar.
    """

    def reduced(kind: str, data: Tensor) -> Tensor:
        inputs = {"data": data, "segment_ids": ids, "num_segments": count}
        return emit.domain_op(f"UnsortedSegment{kind}", inputs)[0]

    dtype = data.dtype
    if dtype not in FLOATS:
        return reduced(kind, data)
    if dtype in _WIDER:
        return emit.cast(reduced(kind, emit.cast(data, _WIDER[dtype])), dtype)
    worst = emit.constant(float("-inf") if kind == "Max" else float("inf"), dtype)
    other = emit.op("Not", emit.op("Equal", data, worst, shape=data.shape), shape=data.shape)
    any_other = reduced("Max", emit.cast(other, TensorProto.UINT8))
    found = reduced(kind, data)
    return emit.op("Where", emit.cast(any_other, TensorProto.BOOL), found, worst, shape=found.shape)
