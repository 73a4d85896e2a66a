"""Where segments begin, segment ids made from that, and ids that must not be negative."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.schemas.declaration import DType

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


def ids_of_starts(emit: TorchEmitter, starts: Tensor, entries: Tensor, dtype: DType) -> Tensor:
    """The segment of each entry: how many segments begin at or before it, less one.

    A first segment that does not begin at 0 leaves a negative id, and a start beyond the entries is out of range: both
    are errors when the model runs. So are starts that decrease, which a reduction into no segments finds.

    Args:
        emit: Receives the nodes.
        starts: The position of the first entry of each segment [segments], in order.
        entries: A tensor with one element or row per entry [entries, ...].
        dtype: The type of the ids.
    """
    count = emit.count(entries, 0)
    zeros = emit.full(0, dtype, count)
    marks = emit.op("Concat", emit.constant([-1], dtype), zeros, axis=0, shape=(None,))
    wide = emit.int64(starts)
    # A constant 0 would tell the exporter's optimizer that the result is empty, and to leave it out.
    zeros = emit.op("BitwiseAnd", wide, emit.constant(0), shape=starts.shape)
    none = emit.op("ReduceSum", zeros, keepdims=0, shape=())
    inputs = {"data": wide, "segment_ids": wide, "num_segments": none}
    (nothing,) = emit.domain_op("SegmentSum", inputs)
    checked = emit.op("Concat", wide, nothing, axis=0, shape=starts.shape)
    ones = emit.full(1, dtype, emit.shape_of(starts))
    marks = emit.op("ScatterElements", marks, checked, ones, shape=(None,), axis=0, reduction="add")
    sums = emit.op("CumSum", marks, emit.constant(0), shape=(None,))
    known = None if entries.shape is None else entries.shape[0]
    return emit.op("Slice", sums, emit.constant([0]), count, shape=(known,))


def offsets_of_lengths(emit: TorchEmitter, lengths: Tensor, entries: Tensor) -> Tensor:
    """Where segments of these lengths [segments] begin that follow each other, and the end, int64 [segments + 1].

    Lengths that do not add up to the number of entries give an end beyond the entries.
    """
    wide = emit.int64(lengths)
    starts = emit.op("CumSum", wide, emit.constant(0), shape=lengths.shape, exclusive=1)
    total, count = emit.op("ReduceSum", wide, keepdims=1, shape=(1,)), emit.count(entries, 0)
    missing = emit.op("Abs", emit.op("Sub", total, count, shape=(1,)), shape=(1,))
    end = emit.op("Add", count, missing, shape=(1,))
    return emit.op("Concat", starts, end, axis=0, shape=(None,))


def ids_of_lengths(emit: TorchEmitter, lengths: Tensor, entries: Tensor, dtype: DType) -> Tensor:
    """The segment of each entry, for segments of these lengths [segments] that follow each other.

    Lengths that do not add up to the number of entries are an error when the model runs.
    """
    return ids_of_starts(emit, offsets_of_lengths(emit, lengths, entries), entries, dtype)


def never_negative(emit: TorchEmitter, ids: Tensor, size: Tensor) -> Tensor:
    """The ids, but the size in place of negative ones: out of range, so an error, where ONNX would count from the end.

    Args:
        emit: Receives the nodes.
        ids: The ids, int32 or int64.
        size: The number that ids are below, as a vector of one element.
    """
    negative = emit.op("Less", ids, emit.like(0, ids), shape=ids.shape)
    return emit.op("Where", negative, emit.cast(size, ids.dtype), ids, shape=ids.shape)


def index(emit: TorchEmitter, ids: Tensor) -> Tensor:
    """Ids of a type that the domain's operators take: int32 or int64."""
    keep = ids.dtype in (TensorProto.INT32, TensorProto.INT64)
    return ids if keep else emit.int64(ids)
