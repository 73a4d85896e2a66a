"""Functions that ONNX Runtime makes of several nodes, and whose shape is not that of the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from onnx_sparse.converters.onnxruntime.examples import of_nodes
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.models.graphs import attribute

_NODE = helper.make_node
#: So many nodes after the error function may be parts of a Gelu.
_NODES_AFTER = 3
_OF_GELU = {"root": 1.4142135, "one": 1.0, "half": 0.5}


class MeanWithoutAxis(Guard):
    """A mean that is not kept as an axis, and is broadcast along another one, is fused into a normalization, which
    keeps the axis.

    The axis is kept, and removed after.
    """

    name = "mean without its axis"
    anchors = ("ReduceMean",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = of_nodes(
        [
            _NODE("ReduceMean", ["x", "axis"], ["m"], keepdims=0),
            _NODE("Sub", ["x", "m"], ["c"]),
            _NODE("Pow", ["c", "two"], ["p"]),
            _NODE("ReduceMean", ["p", "axis"], ["v"]),
            _NODE("Add", ["v", "small"], ["s"]),
            _NODE("Sqrt", ["s"], ["r"]),
            _NODE("Div", ["c", "r"], ["d"]),
            _NODE("Mul", ["d", "one"], ["n"]),
            _NODE("Add", ["n", "one"], ["y"]),
        ],
        {"x": np.array([[0, 2], [4, 6]], np.float32)},
        np.array([[0.75, 0.25], [1.75, 1.25]], np.float32),
        constants={
            "axis": np.array([1]), "two": np.float32(2), "small": np.float32(11), "one": np.ones(2, np.float32)
        },
    )  # fmt: skip

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Means along constant axes, which are not kept, and which are taken off the numbers, or scale them."""
        if attribute(node, "keepdims", 1) or graph.rank(node.input[0]) in (0, 1) or not self._axes(graph, node):
            return False
        users = graph.users(node.output[0])
        return any(
            (user.op_type == "Sub" and node.input[0] in user.input)
            or (user.op_type == "Add" and any(after.op_type == "Sqrt" for after in graph.users(user.output[0])))
            for user in users
        )

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Keep the axes, and squeeze them."""
        emit = graph.emitter(node)
        axes = emit.constant(self._axes(graph, node))
        kept = emit.op("ReduceMean", graph.tensor(node.input[0]), axes, keepdims=1)
        graph.replace(node, "Squeeze", [kept, axes])

    @staticmethod
    def _axes(graph: Graph, node: NodeProto) -> list[int]:
        """The axes; none where they are not constant, or all are meant."""
        given = graph.integers(node.input[1]) if len(node.input) > 1 else attribute(node, "axes")
        return [int(axis) for axis in given or ()]


class GeluOfFewAxes(Guard):
    """Nodes with a constant that has an axis, of a scalar, are fused into a Gelu, whose result has no axis.

    A Reshape without effect separates the nodes.
    """

    name = "Gelu of few axes"
    anchors = ("Erf",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = of_nodes(
        [
            _NODE("Div", ["x", "root"], ["d"]),
            _NODE("Erf", ["d"], ["e"]),
            _NODE("Add", ["e", "one"], ["w"]),
            _NODE("Mul", ["x", "half"], ["h"]),
            _NODE("Mul", ["h", "w"], ["y"]),
        ],
        {"x": np.array(0, np.float32)},
        np.zeros(1, np.float32),
        constants={name: np.array([value], np.float32) for name, value in _OF_GELU.items()},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """The error function of scaled numbers that may be a scalar, beside a constant with an axis.

        A constant is part of a Gelu if it is a scalar or has one axis of one element.
        """
        scaled = graph.producer(node.input[0], "Div", "Mul")
        if scaled is None:
            return False
        roots = [name for name in scaled.input if not graph.is_constant(name)]
        if len(roots) != 1 or graph.rank(roots[0]):
            return False
        return any(graph.shape(name) == (1,) for name in self._constants_beside(graph, scaled, node, roots[0]))

    @staticmethod
    def _constants_beside(graph: Graph, scaled: NodeProto, node: NodeProto, root: str) -> Iterator[str]:
        """The constants that may be parts of a Gelu."""
        beside, after = [scaled, *graph.users(root)], graph.users(node.output[0])
        for _ in range(_NODES_AFTER):
            beside += after
            after = [user for each in after for user in graph.users(each.output[0])]
        for each in beside:
            if each.op_type in ("Add", "Div", "Mul"):
                yield from (name for name in each.input if graph.is_constant(name))

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Let other nodes scale the numbers than those that are multiplied."""
        scaled = graph.producer(node.input[0], "Div", "Mul")
        assert scaled is not None
        emit = graph.emitter(scaled)
        inputs = [graph.tensor(name) for name in scaled.input]
        for place, data in enumerate(inputs):
            if not graph.is_constant(data.name):
                options: dict[str, Any] = {"allowzero": 1} if graph.opset >= 14 else {}
                inputs[place] = emit.op("Reshape", data, emit.op("Shape", data), shape=data.shape, **options)
        graph.set_input(node, 0, emit.op(scaled.op_type, *inputs, shape=graph.shape(node.input[0])).name)
