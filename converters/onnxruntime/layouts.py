"""Moves transpositions between TensorFlow's layout of images and ONNX's to where they cancel out.

The converter puts one before and one after each convolution. Here each is carried along, past operators that can as
well work in the other layout, until one undoes it or something needs the transposed tensor itself.
"""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper

from onnx_sparse.converters.tensor import Array
from onnx_sparse.models.data.references import tensor_of
from onnx_sparse.models.graphs import array_of, attribute, graphs, put_nodes, subgraphs

#: The orders from channels second to channels last: only those are carried along.
_CHANNELS_LAST = ([0, 2, 3, 1], [0, 2, 3, 4, 1])

_ELEMENTWISE = frozenset(
    ("Abs", "Add", "Cast", "Ceil", "Clip", "Div", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "LeakyRelu")
) | {"Log", "Max", "Min", "Mul", "Neg", "Pow", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Sub", "Tanh"}

_REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")


def carry_transpositions(model: ModelProto) -> None:
    """Move transpositions of images in place."""
    for graph in graphs(model.graph):
        if any(node.op_type == "Transpose" and attribute(node, "perm") in _CHANNELS_LAST for node in graph.node):
            _Carrier(graph).carry()


class _Carrier:
    """A graph while its transpositions are moved; those that are carried are not among its nodes."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._outputs = {value.name for value in graph.output}
        self._nodes: list[NodeProto] = []
        #: The tensors that no node makes, each with the tensor of which it is a transposition, and the order.
        self._carried: dict[str, tuple[str, list[int]]] = {}
        #: The tensors that no node makes because they are equal to others.
        self._renamed: dict[str, str] = {}

    def carry(self) -> None:
        for node in self._graph.node:
            node.input[:] = [self._renamed.get(name, name) for name in node.input]
            if not (self._transpose(node) if node.op_type == "Transpose" else self._converted(node)):
                self._keep(node)
        for name in self._outputs:
            self._make(name)
        put_nodes(self._graph, self._nodes)

    def _keep(self, node: NodeProto) -> None:
        """Let a node be, and make what it takes."""
        inner = {name for body in subgraphs(node) for graph in graphs(body) for n in graph.node for name in n.input}
        for name in (*node.input, *sorted(inner)):
            if name in self._renamed:  # bodies keep the names that they use
                copy = helper.make_node("Identity", [self._renamed.pop(name)], [name], name=name)
                self._nodes.append(copy)
            self._make(name)
        self._nodes.append(node)

    def _make(self, name: str) -> None:
        if name in self._carried:
            source, order = self._carried.pop(name)
            self._nodes.append(helper.make_node("Transpose", [source], [name], name=name, perm=order))

    def _transpose(self, node: NodeProto) -> bool:
        """Carry a transposition, or both if two are in a row."""
        name, order = node.output[0], attribute(node, "perm")
        source, before = self._carried.get(node.input[0], (node.input[0], sorted(order or [])))
        if not order or name in self._outputs:
            return False
        order = [before[axis] for axis in order]
        if order == sorted(order):
            self._renamed[name] = source
        elif order in _CHANNELS_LAST:
            self._carried[name] = source, order
        else:
            return False
        return True

    def _converted(self, node: NodeProto) -> bool:
        """Write a node that works in the layout of its sources, and carry its output."""
        orders = {tuple(self._carried[name][1]) for name in node.input if name in self._carried}
        if node.domain != "" or len(orders) != 1 or subgraphs(node) or len(node.output) != 1:
            return False
        order = [axis for order in orders for axis in order]
        copy = NodeProto.FromString(node.SerializeToString())
        copy.input[:] = [self._carried[name][0] if name in self._carried else name for name in node.input]
        if node.op_type == "Shape" and not node.attribute:
            copy.name = copy.output[0] = f"{node.output[0]}/channels_second"
            places = self._constant(f"{node.output[0]}/order", np.array(order))
            self._nodes += [copy, helper.make_node("Gather", [copy.output[0], places], node.output, name=node.name)]
            return True
        if node.op_type in _REDUCTIONS and not attribute(node, "keepdims", 1):
            axes = self._reduced(copy, order)
            rest = [axis for axis in order if axis not in axes]
            if axes and rest == sorted(rest):
                self._nodes.append(copy)
                return True
            return False
        if not self._works(node, copy, order):
            return False
        copy.name = copy.output[0] = f"{node.output[0]}/channels_second"
        self._nodes.append(copy)
        self._carried[node.output[0]] = copy.output[0], order
        return True

    def _works(self, node: NodeProto, copy: NodeProto, order: list[int]) -> bool:
        """Adapt a copy of a node to the layout of its sources; returns whether that is possible."""
        if node.op_type in _ELEMENTWISE:
            return all(self._operand(copy, k, order) for k, name in enumerate(node.input) if name not in self._carried)
        if node.op_type == "Concat":
            given = next(a for a in copy.attribute if a.name == "axis")
            given.i = order[given.i]
            return all(name in self._carried for name in node.input)
        if node.op_type == "Pad" and len(node.input) < 4:
            pads = self._value(node.input[1])
            if pads is None:
                return False
            moved = pads.reshape(2, -1)[:, np.argsort(order)].ravel()
            copy.input[1] = self._constant(f"{node.output[0]}/pads", moved)
            return True
        return node.op_type in _REDUCTIONS and bool(self._reduced(copy, order))

    def _operand(self, copy: NodeProto, position: int, order: list[int]) -> bool:
        """Transpose an operand that is a constant."""
        array = self._value(copy.input[position]) if copy.input[position] else None
        if array is not None and array.ndim:
            spread = array.reshape([1] * (len(order) - array.ndim) + list(array.shape))
            moved = spread.transpose(np.argsort(order))
            copy.input[position] = self._constant(f"{copy.output[0]}/{position}", moved)
        return array is not None or not copy.input[position]

    def _reduced(self, copy: NodeProto, order: list[int]) -> list[int]:
        """Adapt the axes of a reduction; returns them, or none if they are not constants."""
        given = self._value(copy.input[1]) if len(copy.input) > 1 else None
        axes = [int(axis) for axis in given.ravel()] if given is not None else list(attribute(copy, "axes", ()))
        moved = [order[axis] for axis in axes]
        if given is not None:
            copy.input[1] = self._constant(f"{copy.output[0]}/axes", np.array(moved))
        for a in copy.attribute:
            if a.name == "axes":
                a.ints[:] = moved
        return moved

    def _value(self, name: str) -> Array | None:
        return array_of(self._constants[name]) if name in self._constants else None

    def _constant(self, name: str, array: Array) -> str:
        if name not in self._constants:
            self._graph.initializer.append(tensor_of(np.ascontiguousarray(array), name))
            self._constants[name] = self._graph.initializer[-1]
        return name
