"""embedding_bag: rows of a table, looked up and reduced by bag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.torch.handlers.segment_ids import ids_of_matrix, ids_of_starts, index, never_negative

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

_SUM, _MEAN, _MAX = range(3)

_NOTES = (
    "Only the first result, the bags, is converted. Ids after the last offset, where that is included, belong to no "
    "bag. In max, NaN propagates; in torch that depends on the order of the rows."
)


@handles(
    "aten.embedding_bag.default",
    to="EmbeddingSegmentsSum, EmbeddingSegmentsMean or SegmentMax",
    notes=_NOTES,
)
def embedding_bag(node: Node, emit: TorchEmitter) -> tuple[Tensor, ...]:
    """embedding_bag without a padding index."""
    return _embedding_bag(node, emit, None)


@handles(
    "aten.embedding_bag.padding_idx",
    to="EmbeddingSegmentsSum, EmbeddingSegmentsMean or SegmentMax",
    notes=_NOTES,
)
def embedding_bag_with_padding(node: Node, emit: TorchEmitter) -> tuple[Tensor, ...]:
    """embedding_bag, whose padding index counts from the end if it is negative."""
    padding = node.optional_integer("padding_idx")
    if padding is None:
        return _embedding_bag(node, emit, None)
    weight = node.tensor("weight")
    known = weight.shape[0] if weight.shape is not None else None
    if padding < 0 and known is not None:
        padding += known
    number = emit.constant(padding)
    return _embedding_bag(node, emit, emit.op("Add", emit.count(weight, 0), number) if padding < 0 else number)


@handles(
    "aten._embedding_bag.default",
    "aten._embedding_bag_forward_only.default",
    to="EmbeddingSegmentsSum, EmbeddingSegmentsMean or SegmentMax",
    notes=_NOTES,
)
def decomposed_embedding_bag(node: Node, emit: TorchEmitter) -> tuple[Tensor, ...]:
    """What embedding_bag is decomposed into, where a negative padding index means none."""
    padding = node.integer("padding_idx")
    return _embedding_bag(node, emit, emit.constant(padding) if padding >= 0 else None)


def _embedding_bag(node: Node, emit: TorchEmitter, padding: Tensor | None) -> tuple[Tensor, ...]:
    table, indices, offsets = node.tensor("weight"), index(emit, node.tensor("indices")), node.tensor("offsets")
    weights = node.optional("per_sample_weights")
    mode = node.integer("mode")
    if weights is not None and mode != _SUM:
        raise Unsupported("per_sample_weights are only for sums")
    bags = emit.count(offsets, 0)
    if node.flag("include_last_offset"):
        # The last offset begins a segment beyond the last one, whose entries are dropped.
        bags = emit.op("Sub", bags, emit.constant([1]), shape=(1,))
    matrix = emit.matrix_of(node.tensor("indices"), offsets)
    if matrix is not None:
        segments = ids_of_matrix(emit, matrix, indices.dtype)
    else:
        segments = ids_of_starts(emit, offsets, indices, indices.dtype)
    if padding is not None:
        kept = emit.op("Not", emit.op("Equal", indices, emit.cast(padding, indices.dtype), shape=indices.shape))
        indices, segments = (emit.op("Compress", t, kept, axis=0, shape=(None,)) for t in (indices, segments))
        weights = None if weights is None else emit.op("Compress", weights, kept, axis=0, shape=(None,))
    if mode == _MAX:
        ids = never_negative(emit, indices, emit.count(table, 0))
        rows = emit.op("Gather", table, ids, shape=None if table.shape is None else (None, *table.shape[1:]))
        inputs = {"data": rows, "segment_ids": segments, "num_segments": emit.scalar(bags)}
        (output,) = emit.domain_op("SegmentMax", inputs, {"fill_mode": "ZERO"})
    else:
        lookup = {
            "emb_table": table,
            "indices": indices,
            "segment_ids": segments,
            "num_segments": emit.cast(emit.scalar(bags), indices.dtype),
            "per_sample_weights": weights,
        }
        (output,) = emit.domain_op("EmbeddingSegmentsSum" if mode == _SUM else "EmbeddingSegmentsMean", lookup)
    # What torch keeps for the gradient.
    others = [emit.constant([]) for _ in range(3)]
    return (output, *others)
