"""What rules ask about the entries of a lookup of which some were dropped, as safe_embedding_lookup_sparse does."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.entries import is_same
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attribute


@dataclass(frozen=True)
class Kept:
    """Rows of a tensor that were kept.

    Attributes:
        source: The tensor.
        mask: Which of its rows, a vector of booleans.
    """

    source: str
    mask: str

    @classmethod
    def of(cls, graph: Graph, name: str) -> Kept | None:
        """The rows that a tensor has of another, by a mask or by the positions where it is true."""
        node = graph.producer(name, "Compress", "Gather")
        if node is None:
            return None
        is_of_rows = attribute(node, "axis", 0) == 0 if node.op_type == "Gather" else _is_of_rows(graph, node)
        mask = _mask_of_positions(graph, node.input[1]) if node.op_type == "Gather" else node.input[1]
        return cls(node.input[0], mask) if is_of_rows and mask is not None else None


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


def are_not_negative(graph: Graph, ids: str) -> bool:
    """Whether ids are those that were kept because they are not negative."""
    kept = Kept.of(graph, ids)
    both = graph.producer(kept.mask, "And") if kept is not None else None
    tests = () if kept is None else (kept.mask,) if both is None else both.input
    return kept is not None and any(_is_at_least_zero(graph, test) == kept.source for test in tests)


def _is_not_negative(graph: Graph, mask: str, ids: str) -> bool:
    """Whether a mask says which ids are not negative."""
    tested = _is_at_least_zero(graph, mask)
    return tested is not None and is_same(graph, ids, tested)


def _is_at_least_zero(graph: Graph, mask: str) -> str | None:
    """The tensor of which a mask says which elements are not negative."""
    test = graph.producer(mask, "GreaterOrEqual")
    return test.input[0] if test is not None and graph.integers(test.input[1]) == [0] else None


def _before_dropping(graph: Graph, name: str, mask: str) -> str | None:
    """The vector whose elements under a mask are a tensor's."""
    kept = Kept.of(graph, graph.without_casts(name))
    return kept.source if kept is not None and kept.mask == mask else None


def _is_of_rows(graph: Graph, compress: NodeProto) -> bool:
    axis = attribute(compress, "axis")  # without one, the tensor is flattened
    return axis == 0 or (axis is None and graph.rank(compress.input[0]) == 1)


def _mask_of_positions(graph: Graph, name: str) -> str | None:
    """The vector of booleans that is true at these positions, and nowhere else."""
    flat = graph.producer(name, "Reshape", "Squeeze")
    turned = graph.producer(flat.input[0], "Transpose") if flat is not None else None
    found = graph.producer((turned or flat).input[0], "NonZero") if flat is not None else None
    if flat is None or found is None or graph.dtype(found.input[0]) != TensorProto.BOOL:
        return None
    is_flat = flat.op_type == "Squeeze" or graph.integers(flat.input[1]) == [-1]
    return found.input[0] if is_flat and graph.rank(found.input[0]) == 1 else None
