"""Gathers, scatters and branches that ONNX Runtime rewrites or runs wrongly."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto, helper

from onnx_sparse.converters.onnxruntime.examples import model_of, of_nodes, one_node
from onnx_sparse.converters.onnxruntime.guard import Example, Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.writing.lowering.segment_reductions import scattered
from onnx_sparse.models.graphs import attribute, subgraphs

_NODE = helper.make_node
_WORDS = np.array([["a", "b"], ["c", "d"]], object)


class GatherOfRange(Guard):
    """A Gather of the elements of a Range becomes a Slice, whose end of -1 does not mean before the first element.

    A Reshape without effect separates the two.
    """

    name = "gather of a range"
    anchors = ("Gather",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = of_nodes(
        [_NODE("Range", ["start", "end", "step"], ["r"]), _NODE("Gather", ["x", "r"], ["y"])],
        {"x": np.arange(4, dtype=np.float32), "start": np.array(3)},
        np.arange(4, dtype=np.float32)[::-1],
        constants={"end": np.array(-1), "step": np.array(-1)},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Positions of a Range, perhaps cast or passed on, unless it begins at a size or 0 and goes up."""
        places = graph.without_casts(node.input[1])
        while (same := graph.producer(places, "Identity")) is not None:  # which ONNX Runtime removes before
            places = graph.without_casts(same.input[0])
        maker = graph.producer(places, "Range")
        if maker is None:
            return False
        start, step = (graph.integers(maker.input[k]) for k in (0, 2))
        return start is None or start[0] < 0 or step is None or step[0] < 0

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Put a Reshape that changes nothing between the two."""
        emit = graph.emitter(node)
        same = emit.op("Reshape", graph.tensor(node.input[1]), emit.constant([-1]), shape=(None,))
        graph.set_input(node, 1, same.name)


class GatherOfStrings(Guard):
    """A Gather of slices of strings copies only the first string of each.

    Positions are gathered first, then strings by position.
    """

    name = "gather of strings"
    anchors = ("Gather",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node("Gather", _WORDS, np.array([1]), expected=_WORDS[1:])

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Strings, not along their last axis."""
        shape, axis = graph.shape(node.input[0]), attribute(node, "axis", 0)
        is_last = shape is not None and axis in (-1, len(shape) - 1)
        return graph.dtype(node.input[0]) == TensorProto.STRING and not is_last

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Gather the positions of the strings, and then the strings by these."""
        emit = graph.emitter(node)
        given, places = map(graph.tensor, node.input)
        numbers = emit.op("Range", emit.constant(0), emit.op("Size", given, shape=()), emit.constant(1))
        numbers = emit.reshaped(numbers, emit.shape_of(given))
        chosen = emit.op("Gather", numbers, places, axis=attribute(node, "axis", 0))
        graph.replace(node, "Gather", [emit.op("Reshape", given, emit.constant([-1]), shape=(None,)), chosen])


class PlacesInScalar(Guard):
    """NonZero gives a coordinate to a scalar, which has none.

    A Slice removes the coordinate.
    """

    name = "places in a scalar"
    anchors = ("NonZero",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node("NonZero", np.array(1, np.float32), expected=np.zeros((0, 1), np.int64))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A scalar, or what may be one."""
        return not graph.rank(node.input[0])

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Keep as many coordinates as there are dimensions."""
        emit = graph.emitter(node)
        data, zero = graph.tensor(node.input[0]), emit.constant([0])
        places = emit.op("NonZero", data)
        graph.replace(node, "Slice", [places, zero, emit.op("Shape", emit.shape_of(data)), zero])


class ReducingScatter(Guard):
    """ScatterND with a reduction runs on several threads without a lock: some updates of a place are lost.

    A reduction by segment replaces it.
    """

    name = "scatter with a reduction"
    anchors = ("ScatterND",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    varies = True

    @staticmethod
    def example() -> Example:
        """Many updates of few places."""
        ids, updates = np.arange(300000).reshape(-1, 1) % 3, np.ones((300000, 16))
        start, expected = np.zeros((3, 16)), np.full((3, 16), 100000.0)
        node = _NODE("ScatterND", ["start", "ids", "updates"], ["y"], reduction="add")
        return model_of([node], {"start": start, "ids": ids, "updates": updates}, expected)

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A reduction of more than one update."""
        shape = graph.shape(node.input[1])
        is_one = shape is not None and None not in shape and int(np.prod([n or 0 for n in shape[:-1]])) <= 1
        return attribute(node, "reduction", b"none") != b"none" and not is_one

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Reduce by segment."""
        emit = graph.emitter(node)
        start, indices, updates = map(graph.tensor, node.input)
        reduction = attribute(node, "reduction").decode()
        graph.replace(node, "Identity", [scattered(emit, reduction, emit.shape_of(start), indices, updates, start)])


class OutputOfBranch(Guard):
    """An If of a constant loses outputs that are one tensor, and a branch may not return a tensor from outside it.

    Each output becomes a separate tensor.
    """

    name = "outputs of a branch"
    anchors = ("If",)
    seen, effect = ("1.21", "1.32"), "refused"

    @staticmethod
    def example() -> Example:
        """Two outputs that are one."""
        branches = {}
        for name in ("then_branch", "else_branch"):
            outputs = [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None) for _ in range(2)]
            branches[name] = helper.make_graph([_NODE("Neg", ["x"], [f"{name}_y"])], name, [], outputs)
        nodes = [_NODE("If", ["c"], ["p", "q"], **branches), _NODE("Add", ["p", "q"], ["y"])]
        x = np.ones(2, np.float32)
        return model_of(nodes, {"x": x}, -2 * x, constants={"c": np.array(True)})

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A branch with two outputs that are one tensor, or one that none of its nodes makes."""
        for branch in subgraphs(node):
            made = {name for inner in branch.node for name in inner.output} | {t.name for t in branch.initializer}
            names = [value.name for value in branch.output]
            if len(set(names)) < len(names) or not made.issuperset(names):
                return True
        return False

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Let each output be one of its own."""
        for branch in subgraphs(node):
            made = {name for inner in branch.node for name in inner.output} | {t.name for t in branch.initializer}
            for value in branch.output:
                if value.name in made:
                    made.discard(value.name)
                    continue
                copy = graph.fresh(node, "output")
                branch.node.append(_NODE("Identity", [value.name], [copy], name=copy))
                value.name = copy
