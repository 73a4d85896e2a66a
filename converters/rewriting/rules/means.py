"""The rule that fuses a sum of slices and its division by their number into one UnsortedSegmentMean."""

from __future__ import annotations

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.entries import spread
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.schemas.declaration import dtype_name


class MeanOfSlices(Rule[Graph]):
    """A sum of slices divided by their number becomes an UnsortedSegmentMean.

    The pattern is `UnsortedSegmentSum(data, ids, n) / max(UnsortedSegmentSum(ones, ids, n), 1)`, as
    tf.math.unsorted_segment_mean makes it. The same sums are divided by the same numbers: equal to the bit, up to the
    2**24 slices of a segment that float32 can count.
    """

    name = "mean-of-slices"
    anchors = ("Div",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A quotient of a sum of slices and another one, at least 1, perhaps reshaped to its rank."""
        total = graph.producer(node.input[0], "UnsortedSegmentSum")
        least = graph.producer(spread(graph, node.input[1]), "Max")
        if total is None or least is None or len(least.input) != 2:
            return None
        counts = [graph.producer(spread(graph, name), "UnsortedSegmentSum") for name in least.input]
        count = next((c for c in counts if c is not None), None)
        if count is None:
            return None
        return {"total": total, "count": count, "one": least.input[1 if counts[0] is count else 0]}

    def check(self, graph: Graph, node: NodeProto, total: NodeProto, count: NodeProto, one: str) -> str | None:
        """The divisor must count the slices of the sum, and at least 1."""
        if list(total.input[1:]) != list(count.input[1:]):
            return "the divisor is of other segments"
        if not _is_one(graph, one):
            return "the divisor is not at least 1"
        if not _is_ones(graph, count.input[0]) or graph.rank(count.output[0]) != 1:
            return "the divisor does not count slices"
        dtype = graph.dtype(total.input[0])
        if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
            return f"the slices are {dtype_name(dtype)}: TensorFlow rounds their sum before it divides"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, total: NodeProto, **_: object) -> None:
        """Let the reduction divide."""
        graph.replace(node, "UnsortedSegmentMean", list(total.input))


def _is_one(graph: Graph, name: str) -> bool:
    value = graph.constant(name)
    return value is not None and value.size == 1 and value.item() == 1


def _is_ones(graph: Graph, name: str) -> bool:
    """Whether a tensor is 1 everywhere."""
    value = graph.constant(name)
    if value is not None:
        return bool((value == 1).all())
    filled = graph.producer(name, "Fill", "Expand")
    return filled is not None and _is_one(graph, filled.input[1 if filled.op_type == "Fill" else 0])
