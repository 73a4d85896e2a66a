"""Rules for the reductions by segment that tf2onnx writes.

It sorts the ids, puts each segment's rows into one row of a matrix that is as wide as the longest segment, fills the
rest with the value that changes nothing, and reduces the matrix: its size is the number of segments times the longest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.entries import is_row_gather, spread
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.rules.exported_lookups import Lookup
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.segment_reductions import reduced_by_segment
from onnx_sparse.models.graphs import attribute
from onnx_sparse.schemas import FAMILY_OF
from onnx_sparse.schemas.declaration import NUMBERS, dtype_name, numpy_dtype

#: The reduction of the domain by that of the matrix.
_KINDS = {"ReduceSum": "Sum", "ReduceProd": "Prod", "ReduceMax": "Max", "ReduceMin": "Min"}


@dataclass(frozen=True)
class _Sorted:
    """Segment ids that are sorted and counted.

    Attributes:
        ids: The ids, in any order.
        order: Which of them comes at each place of the sorted ones.
        sorted: The sorted ones.
        unique: The Unique node that counts them.
    """

    ids: str
    order: str
    sorted: str
    unique: NodeProto

    @classmethod
    def by(cls, graph: Graph, unique: NodeProto | None) -> _Sorted | None:
        """The ids that a Unique counts after a TopK has sorted them."""
        top = graph.producer(unique.input[0], "TopK") if unique is not None else None
        if unique is None or top is None or unique.input[0] != top.output[0] or len(unique.output) != 4:
            return None
        is_ascending = attribute(top, "largest", 1) == 0 and attribute(top, "sorted", 1) == 1
        is_all = _is_size_of(graph, top.input[1], top.input[0])
        if not is_ascending or not is_all or graph.rank(top.input[0]) != 1 or attribute(unique, "sorted", 1) != 1:
            return None
        return cls(top.input[0], top.output[1], top.output[0], unique)


class PaddedSegments(Rule[Graph]):
    """A matrix of each segment's rows that is reduced becomes a reduction by segment; that of a table's rows, a lookup.

    Sums and products are equal up to rounding, maxima and minima to the bit, those of empty segments (-inf and inf)
    included. NaN propagates. A negative id, which the old graph takes for one that counts from the end and whose rows
    it lets overwrite others, drops its row, as TensorFlow's unsorted reductions do; where TensorFlow allows none, and
    rows are looked up, it is an error.
    """

    name = "padded-segments"
    anchors = tuple(_KINDS)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A reduction of rows that are gathered at places that were scattered into a matrix of -1."""
        rows = graph.producer(node.input[0], "Gather")
        places = graph.producer(rows.input[1], "ScatterND") if is_row_gather(rows) else None
        padded = graph.producer(rows.input[0], "Concat") if is_row_gather(rows) else None
        if places is None or padded is None or len(padded.input) != 2:
            return None
        matrix = graph.producer(places.input[0], "ConstantOfShape")
        shape = graph.producer(matrix.input[0], "Concat") if matrix is not None else None
        if matrix is None or shape is None or len(shape.input) != 2 or graph.uniform(places.input[0]) != -1:
            return None
        return {"padded": padded, "places": places, "count": shape.input[0], "longest": shape.input[1]}

    def check(
        self, graph: Graph, node: NodeProto, padded: NodeProto, places: NodeProto, count: str, longest: str
    ) -> str | None:
        """Each row must be in the matrix once, and what fills the rest must not change the result."""
        found = _placed(graph, places)
        if found is None:
            return "the rows are not put into the matrix by their number in their segment"
        if not _is_largest_count(graph, longest, found.unique):
            return "the matrix is not as wide as the longest segment"
        if axes_of(graph, node) != [1] or attribute(node, "keepdims", 1) != 0:
            return "the reduction is not over the rows of each segment"
        data, filler = padded.input
        dtype = graph.dtype(data)
        if dtype not in NUMBERS:
            return f"the rows are {dtype_name(dtype)}"
        if attribute(padded, "axis") != 0 or not _is_one_row(graph, filler):
            return "the rows are not followed by one that fills the matrix"
        if graph.uniform(filler) != _neutral(node.op_type, dtype):
            return "what fills the matrix changes the result"
        return None

    def rewrite(
        self, graph: Graph, node: NodeProto, padded: NodeProto, places: NodeProto, count: str, **_: Any
    ) -> None:
        """Reduce the rows by their ids."""
        found = _placed(graph, places)
        assert found is not None
        emit = graph.emitter(node)
        data, ids, size = padded.input[0], graph.tensor(widened(graph, found.ids)), scalar(graph, emit, count)
        kind = _KINDS[node.op_type]
        # Where the number of segments is given, the ids may be those of unsorted_segment_sum, which drops rows.
        is_sum = kind == "Sum" and is_one_more(graph, size.name, found.ids)
        lookup = Lookup.of(graph, data) if is_sum else None
        if lookup is not None:
            result = lookup.summed(graph, emit, ids, size)
        else:
            result = reduced_by_segment(emit, kind, graph.tensor(data), ids, size)
        graph.bypass(node, result.name)


class SegmentCounts(Rule[Graph]):
    """The numbers of rows of each segment, scattered from those of a Unique, become a sum of ones by segment. Equal."""

    name = "segment-counts"
    anchors = ("ScatterElements",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """The counts of a Unique of sorted ids, scattered to the places that the ids say."""
        unique = graph.producer(node.input[2], "Unique")
        found = _Sorted.by(graph, unique)
        if unique is None or found is None or list(node.input[1:]) != [unique.output[0], unique.output[3]]:
            return None
        return {"ids": found.ids}

    def check(self, graph: Graph, node: NodeProto, ids: str) -> str | None:
        """The counts must be put where there were zeros."""
        if graph.uniform(node.input[0]) != 0 or graph.rank(node.input[0]) != 1:
            return "the counts are not put into a vector of zeros"
        if attribute(node, "reduction", b"none") != b"none":
            return "the counts are reduced"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, ids: str) -> None:
        """Sum ones by the ids."""
        emit = graph.emitter(node)
        zeros = graph.tensor(node.input[0])
        made = graph.producer(zeros.name, "ConstantOfShape")
        count = scalar(graph, emit, made.input[0]) if made is not None else emit.constant(zeros.dims[0])
        graph.bypass(node, counts_of(graph, emit, graph.tensor(widened(graph, ids)), count).name)


class MeanBySegment(Rule[Graph]):
    """A sum divided by the number of rows, at least 1, becomes a mean; divided by its root, a SqrtN. Equal.

    Where nothing keeps the divisor from being 0, the old graph has NaN for an empty segment, and keeps its division.
    """

    name = "mean-by-segment"
    anchors = ("Div",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A sum by segment, divided by another one of ones, or its root."""
        total = graph.producer(node.input[0], "UnsortedSegmentSum", "EmbeddingSegmentsSum")
        divisor = spread(graph, node.input[1])
        least = graph.producer(divisor, "Max")
        inner = [name for name in least.input if graph.constant(name) is None] if least is not None else [divisor]
        root = graph.producer(inner[0], "Sqrt") if len(inner) == 1 else None
        cast = graph.producer(root.input[0] if root is not None else inner[0], "Cast") if inner else None
        count = graph.producer(cast.input[0], "UnsortedSegmentSum") if cast is not None else None
        if total is None or count is None:
            return None
        return {"total": total, "count": count, "root": root, "least": least}

    def check(
        self, graph: Graph, node: NodeProto, total: NodeProto, count: NodeProto, root: NodeProto | None, least: Any
    ) -> str | None:
        """The divisor must count the rows of the sum, and at least 1."""
        reason = self.difference(graph, node, total, count, root)
        if reason is not None:
            return reason
        if least is None:
            return "an empty segment is NaN here, and 0 in the operator of the domain"
        values = [value for value in map(graph.constant, least.input) if value is not None]
        return None if len(values) == 1 and (values[0] == 1).all() else "the divisor is not at least 1"

    def difference(
        self, graph: Graph, node: NodeProto, total: NodeProto, count: NodeProto, root: NodeProto | None
    ) -> str | None:
        """Why the quotient is none of the sum and the number of its rows; None if it is."""
        is_lookup = total.op_type != "UnsortedSegmentSum"
        segments = total.input[2:4] if is_lookup else total.input[1:3]
        if [graph.without_casts(n) for n in segments] != [graph.without_casts(n) for n in count.input[1:3]]:
            return "the divisor is of other segments"
        if graph.uniform(count.input[0]) != 1 or graph.rank(count.output[0]) != 1:
            return "the divisor does not count rows"
        if is_lookup and graph.shape(total.input[5]) != (0,):
            return "the rows are weighted"
        dtype = graph.dtype(node.output[0])
        if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
            return f"the rows are {dtype_name(dtype)}"
        return "no operator divides a sum of other rows than a table's by a root" if root and not is_lookup else None

    def rewrite(self, graph: Graph, node: NodeProto, total: NodeProto, root: NodeProto | None, **_: Any) -> None:
        """Let the reduction divide."""
        divided = FAMILY_OF[total.op_type].reducing(total.op_type, "mean" if root is None else "sqrtn")
        ordered = {"segment_ids_order": "any"} if total.op_type != "UnsortedSegmentSum" else {}
        graph.replace(node, divided, list(total.input), **ordered)


def counts_of(graph: Graph, emit: Emitter, ids: Tensor, count: Tensor) -> Tensor:
    """How many rows each segment has, int64."""
    one = np.array([1], numpy_dtype(TensorProto.INT64))
    ones = emit.op("Expand", emit.constant(one), emit.shape_of(ids), shape=ids.shape)
    return reduced_by_segment(emit, "Sum", ones, ids, count)


def widened(graph: Graph, name: str) -> str:
    """The int32 ids that were cast to int64; any other tensor itself."""
    cast = graph.producer(name, "Cast")
    return cast.input[0] if cast is not None and graph.dtype(cast.input[0]) == TensorProto.INT32 else name


def scalar(graph: Graph, emit: Emitter, vector: str) -> Tensor:
    """The number that is the only element of a vector."""
    made = graph.producer(vector, "Unsqueeze")
    if made is not None and graph.rank(made.input[0]) == 0:
        return graph.tensor(made.input[0])
    return emit.scalar(graph.tensor(vector))


def _placed(graph: Graph, places: NodeProto) -> _Sorted | None:
    """The ids whose rows' numbers are put at [their segment, their number among those of the segment]."""
    joined = graph.producer(places.input[1], "Concat")
    if joined is None or len(joined.input) != 2 or attribute(places, "reduction", b"none") != b"none":
        return None
    segments, numbers = (_column(graph, name) for name in joined.input)
    number = graph.producer(numbers, "Mod") if numbers is not None else None
    counts = graph.producer(number.input[1], "Gather") if number is not None else None
    counted = graph.producer(number.input[0], "Range") if number is not None else None
    if counts is None or counted is None or not is_row_gather(counts):
        return None
    found = _Sorted.by(graph, graph.producer(counts.input[0], "Unique"))
    if found is None:
        return None
    is_count = list(counts.input) == [found.unique.output[3], found.unique.output[2]]
    starts, end, step = counted.input
    is_every = graph.integers(starts) == [0] and graph.integers(step) == [1] and _is_size_of(graph, end, found.ids)
    is_placed = segments == found.sorted and places.input[2] == found.order
    return found if is_count and is_every and is_placed else None


def _column(graph: Graph, name: str) -> str | None:
    """The vector that was made a matrix of one column."""
    node = graph.producer(name, "Unsqueeze")
    if node is None or graph.rank(node.input[0]) != 1:
        return None
    return node.input[0] if axes_of(graph, node) in ([-1], [1]) else None


def axes_of(graph: Graph, node: NodeProto) -> list[int] | None:
    """The axes of a node, which are an attribute or, in later opsets, an input."""
    if len(node.input) > 1:
        return graph.integers(node.input[1])
    axes: list[int] | None = attribute(node, "axes")
    return axes


def _is_size_of(graph: Graph, name: str, vector: str) -> bool:
    """Whether a number, or a vector of one, is the size of a vector."""
    node = graph.producer(name, "Squeeze", "Reshape", "Unsqueeze")
    name = name if node is None else node.input[0]
    shape = graph.producer(name, "Shape")
    if shape is not None:
        return graph.without_casts(shape.input[0]) == graph.without_casts(vector)
    known = graph.shape(vector)
    return known is not None and known[0] is not None and graph.integers(name) == [known[0]]


def _is_largest_count(graph: Graph, name: str, unique: NodeProto) -> bool:
    """Whether a vector of one element is the largest count of a Unique."""
    largest = graph.producer(name, "ReduceMax")
    if largest is None or largest.input[0] != unique.output[3]:
        return False
    return axes_of(graph, largest) in ([0], None) and attribute(largest, "keepdims", 1) == 1


def is_one_more(graph: Graph, name: str, ids: str) -> bool:
    """Whether a number is one more than the largest of ids."""
    add = graph.producer(name, "Add")
    largest = graph.producer(add.input[0], "ReduceMax") if add is not None else None
    if add is None or largest is None or graph.integers(add.input[1]) != [1]:
        return False
    return graph.without_casts(largest.input[0]) == graph.without_casts(ids)


def _is_one_row(graph: Graph, name: str) -> bool:
    """Whether the first dimension of a tensor is 1."""
    made = graph.producer(name, "Unsqueeze")
    return (made is not None and axes_of(graph, made) == [0]) or (graph.shape(name) or (None,))[0] == 1


def _neutral(op_type: str, dtype: int) -> float:
    """The number that changes no sum, product, maximum or minimum."""
    if op_type in ("ReduceSum", "ReduceProd"):
        return 0 if op_type == "ReduceSum" else 1
    kind = numpy_dtype(dtype)
    if kind.kind == "f":
        return float("-inf") if op_type == "ReduceMax" else float("inf")
    limits = np.iinfo(kind)
    return int(limits.min if op_type == "ReduceMax" else limits.max)
