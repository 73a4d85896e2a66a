"""What rules ask about the entries of a lookup of which some were dropped, as safe_embedding_lookup_sparse does."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import NodeProto

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.rewriting.entries import is_same
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor


@dataclass(frozen=True)
class Dropped:
    """The entries of a lookup before those with negative ids were dropped.

    Attributes:
        ids: Their ids.
        weights: Their weights; empty without weights.
        condition: What else must hold for an entry that is kept, a vector of booleans; None for nothing else.
    """

    ids: str
    weights: str
    condition: str | None

    def marked(self, graph: Graph, emit: Emitter) -> Tensor:
        """The ids, negative for all entries that are dropped."""
        ids = graph.tensor(self.ids)
        if self.condition is None:
            return ids
        return emit.op("Where", graph.tensor(self.condition), ids, emit.like(-1, ids), shape=ids.shape)


def before_negative_are_dropped(graph: Graph, node: NodeProto, kept: str) -> Dropped | None:
    """The entries before some were dropped; None if it is not known that those with negative ids were among them.

    Args:
        graph: The graph.
        node: An EmbeddingSegments node.
        kept: Which entries were kept, a vector of booleans.
    """
    ids, weights = (_before_dropping(graph, node.input[place], kept) for place in (1, 5))
    if graph.shape(node.input[5]) == (0,):
        weights = node.input[5]
    if ids is None or weights is None:
        return None
    if _is_not_negative(graph, kept, ids):
        return Dropped(ids, weights, None)
    both = graph.producer(kept, "And")
    for test, other in () if both is None else (tuple(both.input), tuple(both.input)[::-1]):
        if _is_not_negative(graph, test, ids) and graph.rank(other) == 1:
            return Dropped(ids, weights, other)
    return None


def _is_not_negative(graph: Graph, mask: str, ids: str) -> bool:
    """Whether a mask says which ids are not negative."""
    test = graph.producer(mask, "GreaterOrEqual")
    return test is not None and graph.integers(test.input[1]) == [0] and is_same(graph, ids, test.input[0])


def _before_dropping(graph: Graph, name: str, mask: str) -> str | None:
    """The vector whose elements under a mask are a tensor's."""
    kept = graph.producer(graph.without_casts(name), "Compress")
    return kept.input[0] if kept is not None and kept.input[1] == mask else None
