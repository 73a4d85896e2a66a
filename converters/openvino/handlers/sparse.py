"""The operators that become operators of the domain: sparse rows, segments, embedding bags."""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor

_REDUCTIONS = {"sum": "EmbeddingSegmentsSum", "mean": "EmbeddingSegmentsMean"}


@handles("SparseFillEmptyRows-16", to="SparseFillEmptyRows")
def sparse_fill_empty_rows(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """SparseFillEmptyRows-16. Entries with equal coordinates keep their order, unlike in OpenVINO's own kernel."""
    inputs = {
        "values": node[0],
        "dense_shape": node[1],
        "indices": node[2],
        "default_value": emit.scalar(emit.cast(node[3], node[0].dtype)),
    }
    return emit.domain_op("SparseFillEmptyRows", inputs, {"order": "row_major"})[:3]


@handles("EmbeddingSegmentsSum-3", to="EmbeddingSegmentsSum", notes="Segment ids must be sorted, as specified.")
def embedding_segments_sum(node: Node, emit: Emitter) -> Tensor:
    """EmbeddingSegmentsSum-3."""
    default = node.optional(4)
    inputs = {
        "emb_table": node[0],
        "indices": node[1],
        "segment_ids": emit.cast(node[2], node[1].dtype),
        "num_segments": emit.scalar(emit.cast(node[3], node[1].dtype)),
        "default_index": None if default is None else emit.scalar(emit.cast(default, node[1].dtype)),
        "per_sample_weights": node.optional(5),
    }
    return emit.domain_op("EmbeddingSegmentsSum", inputs)[0]


@handles("SegmentMax-16", to="SegmentMax", notes="NaN propagates, which OpenVINO's CPU kernel ignores.")
def segment_max(node: Node, emit: Emitter) -> Tensor:
    """SegmentMax-16. The specification's examples write `empty_segment_value` for `fill_mode`."""
    key = "fill_mode" if node.has("fill_mode") else "empty_segment_value"
    mode = node.choice(key, ("zero", "lowest"))
    count = node.optional(2)
    inputs = {
        "data": node[0],
        "segment_ids": node[1],
        "num_segments": None if count is None else emit.scalar(count),
    }
    return emit.domain_op("SegmentMax", inputs, {"fill_mode": mode.upper()})[0]


@handles("EmbeddingBagOffsetsSum-3", to="EmbeddingSegmentsSum")
def embedding_bag_offsets_sum(node: Node, emit: Emitter) -> Tensor:
    """EmbeddingBagOffsetsSum-3."""
    return _offsets(node, emit, "sum")


@handles("EmbeddingBagOffsets-15", to="EmbeddingSegmentsSum, EmbeddingSegmentsMean")
def embedding_bag_offsets(node: Node, emit: Emitter) -> Tensor:
    """EmbeddingBagOffsets-15."""
    return _offsets(node, emit, node.choice("reduction", ("sum", "mean"), "sum"))


@handles("EmbeddingBagPackedSum-3", to="EmbeddingSegmentsSum")
def embedding_bag_packed_sum(node: Node, emit: Emitter) -> Tensor:
    """EmbeddingBagPackedSum-3."""
    return _packed(node, emit, "sum")


@handles("EmbeddingBagPacked-15", to="EmbeddingSegmentsSum, EmbeddingSegmentsMean")
def embedding_bag_packed(node: Node, emit: Emitter) -> Tensor:
    """EmbeddingBagPacked-15."""
    return _packed(node, emit, node.choice("reduction", ("sum", "mean"), "sum"))


def _offsets(node: Node, emit: Emitter, reduction: str) -> Tensor:
    """Bag b has indices[offsets[b]:offsets[b + 1]]; the segment of an index is the number of later bags begun by then.

    That is a running count of all offsets but the first, which is 0. An offset equal to the number of indices, which
    begins an empty bag at the end, is counted at a position after the last index.
    """
    table, indices, offsets = node[0], node[1], emit.int64(node[2])
    length = emit.shape_of(indices)
    one = emit.constant([1])
    zeros = emit.op("Expand", emit.constant([0]), emit.op("Add", length, one))
    later = emit.op("Slice", offsets, one, emit.constant([2**62]), emit.constant([0]))
    where = emit.op("Unsqueeze", later, emit.constant([-1]))
    ones = emit.op("Expand", one, emit.shape_of(later))
    starts = emit.op("ScatterND", zeros, where, ones, reduction="add")
    running = emit.op("CumSum", starts, emit.constant(0))
    segments = emit.op("Slice", running, emit.constant([0]), length, emit.constant([0]))
    count = emit.op("Size", offsets)
    return _reduce(emit, reduction, table, indices, segments, count, node.optional(3), node.optional(4))


def _packed(node: Node, emit: Emitter, reduction: str) -> Tensor:
    """Every row of indices [batch, per bag] is a bag."""
    table, indices, weights = node[0], node[1], node.optional(2)
    flat = emit.constant([-1])
    rows = emit.op("Squeeze", emit.shape_of(indices, 0, 1), emit.constant([0]))
    numbers = emit.op("Range", emit.constant(0), rows, emit.constant(1))
    column = emit.op("Unsqueeze", numbers, emit.constant([1]))
    segments = emit.op("Reshape", emit.op("Expand", column, emit.shape_of(indices)), flat)
    if weights is not None:
        weights = emit.op("Reshape", weights, flat)
    return _reduce(emit, reduction, table, emit.op("Reshape", indices, flat), segments, rows, None, weights)


def _reduce(
    emit: Emitter,
    reduction: str,
    table: Tensor,
    indices: Tensor,
    segments: Tensor,
    count: Tensor,
    default: Tensor | None,
    weights: Tensor | None,
) -> Tensor:
    if weights is not None and reduction == "mean":
        raise Unsupported("weights with reduction mean, which the specification does not allow")
    index = indices.dtype
    inputs = {
        "emb_table": table,
        "indices": indices,
        "segment_ids": emit.cast(segments, index),
        "num_segments": emit.cast(count, index),
        "default_index": None if default is None else emit.scalar(emit.cast(default, index)),
        "per_sample_weights": weights,
    }
    return emit.domain_op(_REDUCTIONS[reduction], inputs)[0]
