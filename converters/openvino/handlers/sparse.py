"""The operators that become operators of the domain: sparse rows, segments, embedding bags."""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_REDUCTIONS = {"sum": "EmbeddingBagOffsetsSum", "mean": "EmbeddingBagOffsetsMean"}

_OFFSETS = "The first offset must be 0, and offsets must not decrease."


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


@handles("EmbeddingBagOffsetsSum-3", to="EmbeddingBagOffsetsSum", notes=_OFFSETS)
def embedding_bag_offsets_sum(node: Node, emit: Emitter) -> Tensor:
    """EmbeddingBagOffsetsSum-3."""
    return _offsets(node, emit, "sum")


@handles("EmbeddingBagOffsets-15", to="EmbeddingBagOffsetsSum, EmbeddingBagOffsetsMean", notes=_OFFSETS)
def embedding_bag_offsets(node: Node, emit: Emitter) -> Tensor:
    """EmbeddingBagOffsets-15."""
    return _offsets(node, emit, node.choice("reduction", ("sum", "mean"), "sum"))


@handles("EmbeddingBagPackedSum-3", to="EmbeddingBagOffsetsSum")
def embedding_bag_packed_sum(node: Node, emit: Emitter) -> Tensor:
    """EmbeddingBagPackedSum-3."""
    return _packed(node, emit, "sum")


@handles("EmbeddingBagPacked-15", to="EmbeddingBagOffsetsSum, EmbeddingBagOffsetsMean")
def embedding_bag_packed(node: Node, emit: Emitter) -> Tensor:
    """EmbeddingBagPacked-15."""
    return _packed(node, emit, node.choice("reduction", ("sum", "mean"), "sum"))


def _offsets(node: Node, emit: Emitter, reduction: str) -> Tensor:
    """Bag b has indices[offsets[b]:offsets[b + 1]]."""
    return _reduce(emit, reduction, node[0], node[1], node[2], node.optional(3), node.optional(4))


def _packed(node: Node, emit: Emitter, reduction: str) -> Tensor:
    """Every row of indices [batch, per bag] is a bag."""
    indices, weights = node[1], node.optional(2)
    flat = emit.constant([-1])
    rows, columns = (emit.op("Squeeze", emit.shape_of(indices, k, k + 1), emit.constant([0])) for k in (0, 1))
    numbers = emit.op("Range", emit.constant(0), rows, emit.constant(1))
    if weights is not None:
        weights = emit.op("Reshape", weights, flat)
    begins = emit.op("Mul", numbers, columns)
    return _reduce(emit, reduction, node[0], emit.op("Reshape", indices, flat), begins, None, weights)


def _reduce(
    emit: Emitter,
    reduction: str,
    table: Tensor,
    indices: Tensor,
    offsets: Tensor,
    default: Tensor | None,
    weights: Tensor | None,
) -> Tensor:
    if weights is not None and reduction == "mean":
        raise Unsupported("weights with reduction mean, which the specification does not allow")
    inputs = {
        "emb_table": table,
        "indices": indices,
        "offsets": emit.cast(offsets, indices.dtype),
        "default_index": None if default is None else emit.scalar(emit.cast(default, indices.dtype)),
        "per_sample_weights": weights,
    }
    return emit.domain_op(_REDUCTIONS[reduction], inputs)[0]
