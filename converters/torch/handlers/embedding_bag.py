"""embedding_bag: rows of a table, looked up and reduced by bag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.torch.handlers.segment_ids import index

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

#: The operators by the number of the mode.
_OPERATORS = ("EmbeddingBagOffsetsSum", "EmbeddingBagOffsetsMean", "EmbeddingBagOffsetsMax")

#: Of the gradient.
_IGNORED = ("scale_grad_by_freq", "sparse")
_TO = "EmbeddingBagOffsetsSum, EmbeddingBagOffsetsMean or EmbeddingBagOffsetsMax"
_NOTES = (
    "Only the first result, the bags, is converted. Ids after the last offset, where that is included, belong to no "
    "bag. In max, NaN propagates; in torch that depends on the order of the rows."
)


@handles("aten.embedding_bag.default", to=_TO, notes=_NOTES, ignored=_IGNORED)
def embedding_bag(node: Node, emit: TorchEmitter) -> tuple[Tensor, ...]:
    """embedding_bag without a padding index."""
    return _embedding_bag(node, emit, None)


@handles("aten.embedding_bag.padding_idx", to=_TO, notes=_NOTES, ignored=_IGNORED)
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
    "aten._embedding_bag.default", "aten._embedding_bag_forward_only.default", to=_TO, notes=_NOTES, ignored=_IGNORED
)
def decomposed_embedding_bag(node: Node, emit: TorchEmitter) -> tuple[Tensor, ...]:
    """What embedding_bag is decomposed into, where a negative padding index means none."""
    padding = node.integer("padding_idx")
    return _embedding_bag(node, emit, emit.constant(padding) if padding >= 0 else None)


def _embedding_bag(node: Node, emit: TorchEmitter, padding: Tensor | None) -> tuple[Tensor, ...]:
    indices, offsets = index(emit, node.tensor("indices")), index(emit, node.tensor("offsets"))
    if indices.dtype != offsets.dtype:
        indices, offsets = emit.int64(indices), emit.int64(offsets)
    operator = _OPERATORS[node.integer("mode")]
    inputs = {
        "emb_table": node.tensor("weight"),
        "indices": indices,
        "offsets": offsets,
        "padding_index": None if padding is None else emit.scalar(emit.cast(padding, indices.dtype)),
    }
    weights = node.optional("per_sample_weights")
    if weights is not None:
        if operator != "EmbeddingBagOffsetsSum":
            raise Unsupported("per_sample_weights are only for sums")
        inputs["per_sample_weights"] = weights
    last = "true" if node.flag("include_last_offset") else "false"
    (output,) = emit.domain_op(operator, inputs, {"include_last_offset": last})
    # What torch keeps for the gradient.
    others = [emit.constant([]) for _ in range(3)]
    return (output, *others)
