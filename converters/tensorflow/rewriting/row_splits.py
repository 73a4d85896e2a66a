"""The rule for the rows of a ragged tensor's values."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto, numpy_helper

from onnx_sparse.converters.tensorflow.rewriting.entries import FAR
from onnx_sparse.converters.tensorflow.rewriting.graph import Graph, attribute
from onnx_sparse.converters.tensorflow.rewriting.rule import Declined, Rule
from onnx_sparse.converters.tensorflow.rewriting.sizes import shape_sizes, size_of, sizes
from onnx_sparse.schemas.declaration import numpy_dtype


class RowsOfSplits(Rule):
    """The row of each value of a ragged tensor becomes the number of splits up to it, counted by a running sum.

    TensorFlow repeats each row's number by its length: it expands the numbers to a matrix of rows x longest row and
    keeps those under a mask, so every row takes the time and memory of the longest. Equal for the splits of a valid
    RaggedTensor, which begin with 0 and do not decrease.
    """

    name = "rows-of-splits"
    anchors = ("Compress",)

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Count splits where rows begin."""
        numbers, lengths = _repeated(graph, node)
        if numbers is None or lengths is None:
            return False
        spread = graph.producer(lengths, "Expand")
        if spread is not None and sizes(graph, spread.input[1]) == shape_sizes(graph, numbers):
            lengths = graph.without_casts(spread.input[0])  # there is one length per number already
        splits = _splits_of(graph, lengths)
        if splits is None:
            raise Declined("the values are not repeated by the lengths of rows between splits")
        if not _is_every_row(graph, numbers, splits):
            raise Declined("the repeated values are not the numbers of the rows")
        dtype = graph.dtype(splits)
        kind = numpy_dtype(dtype)
        one = graph.add_constant(node, np.array([1], kind))
        first, last, end = (graph.add_constant(node, np.array([at])) for at in (0, -1, FAR))
        total = graph.emit(node, "Slice", [splits, last, end], dtype=dtype, shape=(1,))
        # Empty rows at the end begin after the last value, so there is one position more than there are values.
        places = graph.emit(node, "Add", [total, one], dtype=dtype, shape=(1,))
        zero, unit = (numpy_helper.from_array(np.array([value], kind)) for value in (0, 1))
        shape = graph.cast(node, places, TensorProto.INT64)
        zeros = graph.emit(node, "ConstantOfShape", [shape], dtype=dtype, shape=(None,), value=zero)
        many = graph.emit(node, "Shape", [splits], dtype=TensorProto.INT64, shape=(1,))
        ones = graph.emit(node, "ConstantOfShape", [many], dtype=dtype, shape=(None,), value=unit)
        scattered = [zeros, splits, ones]
        begun = graph.emit(node, "ScatterElements", scattered, dtype=dtype, shape=(None,), axis=0, reduction="add")
        axis = graph.add_constant(node, np.array(0))
        counted = graph.emit(node, "CumSum", [begun, axis], dtype=dtype, shape=(None,))
        of_values = [counted, first, graph.cast(node, total, TensorProto.INT64)]
        counts = graph.emit(node, "Slice", of_values, dtype=dtype, shape=(None,))
        graph.replace(node, "Sub", [counts, one])
        return True


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


def _splits_of(graph: Graph, lengths: str) -> str | None:
    """The splits between which rows have the given lengths: lengths = splits[1:] - splits[:-1]."""
    difference = graph.producer(lengths, "Sub")
    if difference is None:
        return None
    ends, starts = (graph.producer(name, "Slice") for name in difference.input)
    if ends is None or starts is None or ends.input[0] != starts.input[0] or graph.rank(ends.input[0]) != 1:
        return None
    from_second, to_last = ([graph.integers(name) for name in cut.input[1:]] for cut in (ends, starts))
    end = from_second[1]
    if end is None or end[0] < FAR or from_second != [[1], end, [0]] or to_last != [[0], [-1], [0]]:
        return None
    splits: str = ends.input[0]
    return splits


def _is_every_row(graph: Graph, numbers: str, splits: str) -> bool:
    """Whether a vector counts 0, 1, ... for every row between splits."""
    count = graph.producer(numbers, "Range")
    if count is None or graph.integers(count.input[0]) != [0] or graph.integers(count.input[2]) != [1]:
        return False
    less = graph.producer(graph.without_casts(count.input[1]), "Sub")
    if less is None or graph.integers(less.input[1]) != [1]:
        return False
    return sizes(graph, less.input[0]) == shape_sizes(graph, splits)
