"""What rules ask about the entries of sparse tensors: which column, which are kept, how many segments they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from onnx import NodeProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.sizes import shape_sizes, size_of, sizes
from onnx_sparse.models.graphs import attribute

#: The end of a slice without an end.
FAR = 2**31 - 1


@dataclass(frozen=True)
class Column:
    """One column of a matrix, as a vector."""

    matrix: str
    index: int


def column(graph: Graph, name: str) -> Column | None:
    """The column that a vector is, `matrix[:, index]`; None if it is not a column."""
    node = graph.producer(name, "Gather", "Squeeze")
    if node is None:
        return None
    if node.op_type == "Gather":
        index = graph.integers(node.input[1])
        if attribute(node, "axis", 0) != 1 or index is None or graph.shape(node.input[1]) != ():
            return None
        return Column(node.input[0], index[0])
    cut = graph.producer(node.input[0], "Slice")
    if cut is None or len(node.input) < 2 or graph.integers(node.input[1]) != [1] or len(cut.input) != 4:
        return None
    starts, ends, axes = (graph.integers(given) for given in cut.input[1:])
    if starts is None or ends is None or axes != [0, 1] or starts[0] != 0 or ends[0] < FAR:
        return None
    return Column(cut.input[0], starts[1]) if starts[1] >= 0 and ends[1] == starts[1] + 1 else None


def is_row_gather(node: NodeProto | None) -> TypeGuard[NodeProto]:
    """Whether a node gathers rows of a table."""
    return node is not None and node.op_type == "Gather" and attribute(node, "axis", 0) == 0


def one_more_than_the_last(graph: Graph, name: str) -> str | None:
    """The sorted ids if a scalar is their last one plus 1, or 0 without ids; None for any other scalar."""
    add = graph.producer(name, "Add")
    if add is None or graph.integers(add.input[1]) != [1]:
        return None
    last = graph.producer(add.input[0], "Gather")
    if last is None or graph.integers(last.input[1]) != [-1]:
        return None
    joined = graph.producer(last.input[0], "Concat")
    if joined is None or len(joined.input) != 2 or graph.integers(joined.input[0]) != [-1]:
        return None
    ids: str = joined.input[1]
    return ids


def is_same(graph: Graph, one: str, other: str) -> bool:
    """Whether two integer tensors are the same up to their type."""
    return graph.without_casts(one) == graph.without_casts(other)


def spread(graph: Graph, name: str) -> str:
    """The vector that was reshaped to a tensor of shape [K, 1, ..., 1]; any other tensor itself."""
    node = graph.producer(name, "Reshape", "Unsqueeze")
    if node is None or graph.rank(node.input[0]) != 1:
        return name
    if node.op_type == "Unsqueeze":
        axes = graph.integers(node.input[1])
        return node.input[0] if axes is not None and 0 not in axes else name
    target, taken = sizes(graph, node.input[1]), shape_sizes(graph, node.input[0])
    if target is None or taken is None or not target or any(size != size_of(1) for size in target[1:]):
        return name
    return node.input[0] if target[0] in (taken[0], size_of(-1)) else name
