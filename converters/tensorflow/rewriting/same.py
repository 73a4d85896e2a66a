"""Rules for nodes whose output equals their input."""

from __future__ import annotations

from onnx import NodeProto

from onnx_sparse.converters.tensorflow.rewriting.graph import Graph
from onnx_sparse.converters.tensorflow.rewriting.rule import Declined, Rule
from onnx_sparse.converters.tensorflow.rewriting.sizes import Size, shape_sizes, size_of, sizes

_FAR = 10**9  # tf2onnx's end of a slice without an end


class WholeSlice(Rule):
    """A Slice of the whole tensor passes its input on; `x[:, None]` leaves one. Equal."""

    name = "whole-slice"
    anchors = ("Slice",)

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Pass the input on."""
        starts, ends = (graph.integers(name) for name in node.input[1:3])
        steps = graph.integers(node.input[4]) if len(node.input) == 5 else [1]
        if starts is None or ends is None or steps is None:
            return False
        if any(starts) or min(ends, default=_FAR) < _FAR or {*steps} - {1}:
            return False
        graph.bypass(node, node.input[0])
        return True


class SameShape(Rule):
    """A Reshape or SparseReshape to the shape that the input already has passes its input on. Equal.

    Sizes are compared symbolically. Neither form checks coordinates outside their dense shape.
    """

    name = "same-shape"
    anchors = ("Reshape", "SparseReshape")

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Pass the input on."""
        if node.op_type == "Reshape":
            before, after = shape_sizes(graph, node.input[0]), sizes(graph, node.input[1])
            if before is None or after is None or not _keeps(before, after):
                return False
            graph.bypass(node, node.input[0])
            return True
        before, after = sizes(graph, node.input[1]), sizes(graph, node.input[2])
        if before is None or after is None:
            raise Declined("the rank is not known")
        if not _is_same(before, after):
            raise Declined(f"{len(before)} dimensions become {len(after)} that may differ")
        if node.output[0] in graph.outputs or node.output[1] in graph.outputs:
            raise Declined("the result is an output of the graph")
        graph.bypass(node, node.input[0], 0)
        graph.bypass(node, node.input[1], 1)
        return True


def _is_same(before: list[Size], after: list[Size]) -> bool:
    """Whether the sizes are equal; a -1 equals its counterpart if all others are known, equal and not 0."""
    if before == after:
        return True
    others = [b == a and not a[1] and a[0] > 0 for b, a in zip(before, after, strict=False) if a != size_of(-1)]
    return len(before) == len(after) and len(others) == len(after) - 1 and all(others)


def _keeps(before: list[Size], after: list[Size]) -> bool:
    """Whether a Reshape target is the input's shape; a 0 in it copies the dimension at its position."""
    if len(before) == 1 and after == [size_of(-1)]:
        return True
    return len(before) == len(after) and all(b in (a, size_of(0)) for a, b in zip(before, after, strict=True))
