"""The rule for the rows of a ragged tensor's values."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto, numpy_helper

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.ragged_rows import splits_between
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.sizes import shape_sizes, size_of, sizes
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.partitions import checked_splits
from onnx_sparse.models.graphs import attribute
from onnx_sparse.schemas import unsorted_segment
from onnx_sparse.schemas.declaration import numpy_dtype


class RowsOfSplits(Rule[Graph]):
    """The row of each value of a ragged tensor becomes the number of splits up to it, counted by a running sum.

    TensorFlow repeats each row's number by its length: it expands the numbers to a matrix of rows x longest row and
    keeps those under a mask, so every row takes the time and memory of the longest. Equal for splits that begin with 0
    and do not decrease; the model refuses others.
    """

    name = "rows-of-splits"
    anchors = ("Compress",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Compress that repeats numbers by lengths."""
        numbers, lengths = _repeated(graph, node)
        if numbers is None or lengths is None:
            return None
        spread = graph.producer(lengths, "Expand")
        if spread is not None and sizes(graph, spread.input[1]) == shape_sizes(graph, numbers):
            lengths = graph.without_casts(spread.input[0])  # there is one length per number already
        return {"numbers": numbers, "splits": splits_between(graph, lengths)}

    def check(self, graph: Graph, node: NodeProto, numbers: str, splits: str | None) -> str | None:
        """The numbers must be those of the rows, the lengths those between splits."""
        if splits is None:
            return "the values are not repeated by the lengths of rows between splits"
        if not _is_every_row(graph, numbers, splits):
            return "the repeated values are not the numbers of the rows"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, splits: str, **_: object) -> None:
        """Count splits where rows begin."""
        emit, given = graph.emitter(node), graph.tensor(splits)
        first, last = (emit.constant([at]) for at in (0, -1))
        values = _reduced_by(graph, node)
        # Where the values are not known here, what takes them with their rows refuses another number of them.
        count = emit.op("Gather", given, emit.constant(-1), shape=()) if values is None else emit.size(values, 0)
        ends = emit.cast(checked_splits(given, count, emit), given.dtype)
        one = emit.constant([1], ends.dtype)
        total = emit.op("Gather", ends, last, shape=(1,))
        # Empty rows at the end begin after the last value, so there is one position more than there are values.
        shape = emit.cast(emit.op("Add", total, one, shape=(1,)), TensorProto.INT64)
        zero, unit = (numpy_helper.from_array(np.array([value], numpy_dtype(ends.dtype))) for value in (0, 1))
        zeros = emit.op("ConstantOfShape", shape, shape=(None,), value=zero)
        ones = emit.op("ConstantOfShape", emit.shape_of(ends), shape=(None,), value=unit)
        begun = emit.op("ScatterElements", zeros, ends, ones, shape=(None,), axis=0, reduction="add")
        counted = emit.op("CumSum", begun, emit.constant(0), shape=(None,))
        counts = emit.op("Slice", counted, first, emit.cast(total, TensorProto.INT64), shape=(None,))
        graph.replace(node, "Sub", [counts, one])


def _reduced_by(graph: Graph, node: NodeProto) -> Tensor | None:
    """The values that are reduced by the rows that a node computes, if they are there before it."""
    earlier = set[str]()
    for other in graph.nodes:
        if other is node:
            break
        earlier.update(other.output)
    for user in graph.users(node.output[0]):
        if user.op_type in unsorted_segment.FAMILY.names and user.input[1] == node.output[0]:
            values: str = user.input[0]
            while values not in earlier and (cast := graph.producer(values, "Cast")) is not None:
                values = cast.input[0]
            if graph.producer(values) is None or values in earlier:
                return graph.tensor(values)
    return None


def _repeated(graph: Graph, node: NodeProto) -> tuple[str | None, str | None]:
    """The vector whose elements a Compress repeats, and the lengths by which it repeats them: tf.repeat."""
    nothing = (None, None)
    flat, mask = graph.producer(node.input[0], "Reshape"), graph.producer(node.input[1], "Reshape")
    if attribute(node, "axis", 0) != 0 or flat is None or mask is None:
        return nothing
    tile, less = graph.producer(flat.input[0], "Tile"), graph.producer(mask.input[0], "Less")
    if tile is None or less is None or any(graph.integers(r.input[1]) != [-1] for r in (flat, mask)):
        return nothing
    places, limits = graph.producer(less.input[0], "Range"), graph.producer(less.input[1], "Unsqueeze", "Cast")
    if limits is not None and limits.op_type == "Cast":
        limits = graph.producer(graph.without_casts(less.input[1]), "Unsqueeze")
    column, repeats = graph.producer(tile.input[0], "Unsqueeze"), sizes(graph, tile.input[1])
    if places is None or limits is None or column is None or repeats is None or len(repeats) != 2:
        return nothing
    start, longest, step = places.input
    lengths = graph.without_casts(limits.input[0])
    is_repeat = (
        (graph.integers(start), graph.integers(step)) == ([0], [1])
        and repeats == [size_of(1), *(sizes(graph, longest) or [])]
        and _is_longest(graph, graph.without_casts(longest), lengths)
        and all(graph.rank(v.input[0]) == 1 and graph.integers(v.input[1]) in ([1], [-1]) for v in (limits, column))
    )
    return (column.input[0], lengths) if is_repeat else nothing


def _is_longest(graph: Graph, name: str, lengths: str) -> bool:
    """Whether a number is the largest of the lengths, or 0 without lengths."""
    at_least = graph.producer(name, "Max")
    if at_least is None or len(at_least.input) != 2 or graph.integers(at_least.input[0]) != [0]:
        return False
    largest = graph.producer(graph.without_casts(at_least.input[1]), "ReduceMax")
    return largest is not None and graph.without_casts(largest.input[0]) == lengths


def _is_every_row(graph: Graph, numbers: str, splits: str) -> bool:
    """Whether a vector counts 0, 1, ... for every row between splits."""
    count = graph.producer(numbers, "Range")
    if count is None or graph.integers(count.input[0]) != [0] or graph.integers(count.input[2]) != [1]:
        return False
    less = graph.producer(graph.without_casts(count.input[1]), "Sub")
    if less is None or graph.integers(less.input[1]) != [1]:
        return False
    return sizes(graph, less.input[0]) == shape_sizes(graph, splits)
