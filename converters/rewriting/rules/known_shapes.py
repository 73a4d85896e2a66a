"""Rules for nodes whose output equals their input, and for shapes that are computed in vain."""

from __future__ import annotations

import math
from operator import or_

from onnx import NodeProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.sizes import Size, shape_sizes, size_of, sizes
from onnx_sparse.models.graphs import attribute

_FAR = 10**9  # tf2onnx's end of a slice without an end


class WholeSlice(Rule[Graph]):
    """A Slice of the whole tensor passes its input on; `x[:, None]` leaves one. Equal."""

    name = "whole-slice"
    anchors = ("Slice",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Slice whose bounds reach from the start to beyond the end, step by step."""
        starts, ends = (graph.integers(name) for name in node.input[1:3])
        steps = graph.integers(node.input[4]) if len(node.input) == 5 else [1]
        if starts is None or ends is None or steps is None:
            return None
        is_whole = not any(starts) and min(ends, default=_FAR) >= _FAR and not {*steps} - {1}
        return {} if is_whole else None

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Pass the input on."""
        graph.bypass(node, node.input[0])


class SameShape(Rule[Graph]):
    """A Reshape to the shape that the input already has passes its input on. Equal.

    Sizes are compared symbolically.
    """

    name = "same-shape"
    anchors = ("Reshape",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Reshape to the sizes of its input."""
        before, after = shape_sizes(graph, node.input[0]), sizes(graph, node.input[1])
        copies = not attribute(node, "allowzero", 0)
        return None if before is None or after is None or not _keeps(before, after, copies=copies) else {}

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Pass the input on."""
        graph.bypass(node, node.input[0])


class SameSparseShape(Rule[Graph]):
    """A SparseReshape to the shape that the sparse tensor already has passes its inputs on. Equal.

    Sizes are compared symbolically. Neither form checks coordinates outside their dense shape.
    """

    name = "same-sparse-shape"
    anchors = ("SparseReshape",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """Every SparseReshape."""
        return {"before": sizes(graph, node.input[1]), "after": sizes(graph, node.input[2])}

    def check(self, graph: Graph, node: NodeProto, before: list[Size] | None, after: list[Size] | None) -> str | None:
        """The shapes must be known to be equal, and the outputs be no outputs of the graph."""
        if before is None or after is None:
            return "the rank is not known"
        if not _is_same(before, after):
            return f"{len(before)} dimensions become {len(after)} that may differ"
        if not graph.outputs.isdisjoint(node.output):
            return "the result is an output of the graph"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, **_: object) -> None:
        """Pass the coordinates and the shape on."""
        for output in range(2):
            graph.bypass(node, node.input[output], output)


class KnownShape(Rule[Graph]):
    """A Reshape to sizes that are numbers, sizes of its input, or one other size, takes a constant shape. Equal.

    A -1 stands only beside numbers greater than 0, and a 0, which copies a size, only without a -1: then both are right
    for empty tensors, too. TensorFlow's -1 beside copied sizes is the product of those that are not copied.
    """

    name = "known-shape"
    anchors = ("Reshape",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Reshape to a computed shape that a constant can say."""
        after = sizes(graph, node.input[1])
        if graph.constant(node.input[1]) is not None or after is None:
            return None
        before = shape_sizes(graph, node.input[0]) or []
        copied = [axis < len(before) and size == before[axis] for axis, size in enumerate(after)]
        known = [not symbols for _, symbols in after]
        if after.count(size_of(-1)) == 1 and all(map(or_, copied, known)):
            rest = [size for axis, size in enumerate(before) if axis >= len(after) or not copied[axis] or known[axis]]
            after = [_quotient(rest, after) if size == size_of(-1) else size for size in after]
        if any(number <= 0 for number, symbols in after if not symbols):
            return None
        if sum(known) == len(after) - 1:
            return {"shape": [number if is_known else -1 for is_known, (number, _) in zip(known, after, strict=True)]}
        if all(map(or_, copied, known)):
            return {"shape": [number if is_known else 0 for is_known, (number, _) in zip(known, after, strict=True)]}
        return None

    def rewrite(self, graph: Graph, node: NodeProto, shape: list[int]) -> None:
        """Write the shape as a constant."""
        graph.replace(node, "Reshape", [node.input[0], graph.emitter(node).constant(shape)])


def _quotient(dividend: list[Size], after: list[Size]) -> Size:
    """The size that a -1 stands for, or a -1 if it is not known."""
    divisor = math.prod(number for number, symbols in after if not symbols and number > 0)
    total = math.prod(number for number, _ in dividend)
    is_known = not any(symbols for _, symbols in dividend) and total % divisor == 0
    return size_of(total // divisor if is_known else -1)


def _is_same(before: list[Size], after: list[Size]) -> bool:
    """Whether the sizes are equal; a -1 equals its counterpart if all others are known, equal and not 0."""
    if before == after:
        return True
    others = [b == a and not a[1] and a[0] > 0 for b, a in zip(before, after, strict=False) if a != size_of(-1)]
    return len(before) == len(after) and len(others) == len(after) - 1 and all(others)


def _keeps(before: list[Size], after: list[Size], *, copies: bool) -> bool:
    """Whether a Reshape target is the input's shape, where a 0 may copy the dimension at its position."""
    if _is_same(before, after):
        return True
    is_copy = copies and len(before) == len(after)
    return is_copy and all(b in (a, size_of(0)) for a, b in zip(before, after, strict=True))
