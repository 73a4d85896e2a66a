"""Constant folding, common subexpressions, and copies, casts and transpositions that change nothing.

Each rule holds for tensors of any size, empty ones included:

- a node whose inputs are constants becomes a constant;
- a branch that is always taken stands in place of its If, of which ONNX Runtime would lose an output;
- copies, transpositions and casts that change nothing go, and of two in a row one stays;
- equal constants and equal nodes are merged, and what nothing uses is dropped.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TypeVar

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.writing.folding import folded
from onnx_sparse.models.graphs import Names, array_of, attribute, graphs, rename, subgraphs
from onnx_sparse.schemas.declaration import HALF_FLOATS, numpy_dtype

#: Operators that are computed when all their inputs are constants.
_FOLDED = frozenset(
    ("Add", "Cast", "Concat", "Expand", "Gather", "Mul", "Neg", "Range", "Reshape", "Shape", "Slice", "Squeeze")
) | {"Sub", "Tile", "Transpose", "Unsqueeze"}

#: A constant with more elements is made only if it is no larger than the node's inputs.
_LARGE = 1 << 12

#: Constants with more elements are not compared.
_COMPARED = 1 << 16

_RANDOM = ("Random", "Multinomial", "Bernoulli", "Dropout")

_Value = TypeVar("_Value")
_Chained = MutableMapping[str, _Value]


def simplify(model: ModelProto) -> None:
    """Tidy a model in place. Types must have been inferred."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    _take_branches(model.graph, {}, Names(_every_name(model.graph)))
    _Scope(model.graph, opsets).simplify()
    _drop_unused(model.graph)


def _take_branches(graph: GraphProto, outer: Mapping[str, TensorProto], names: Names) -> None:
    """Put the nodes of branches whose condition is a constant in place of their If, here and in bodies."""
    constants = {**outer, **{tensor.name: tensor for tensor in graph.initializer}}
    waiting, nodes = list(graph.node)[::-1], []
    while waiting:
        node = waiting.pop()
        if node.op_type != "If" or node.input[0] not in constants:
            for body in subgraphs(node):
                _take_branches(body, constants, names)
            nodes.append(node)
            continue
        is_taken = array_of(constants[node.input[0]]).item()
        branch = attribute(node, "then_branch" if is_taken else "else_branch")
        made = [*(tensor.name for tensor in branch.initializer), *(name for n in branch.node for name in n.output)]
        renamed = {name: names.fresh(f"{node.name}/{name}") for name in filter(None, made)}
        rename(branch.node, renamed)
        for value in (*branch.initializer, *branch.value_info):
            value.name = renamed.get(value.name, value.name)
        constants |= {tensor.name: tensor for tensor in branch.initializer}
        graph.initializer.extend(branch.initializer)
        graph.value_info.extend(branch.value_info)
        results = [renamed.get(value.name, value.name) for value in branch.output]
        copies = [helper.make_node("Identity", [r], [o], name=o) for r, o in zip(results, node.output, strict=True)]
        waiting += [*branch.node, *copies][::-1]
    copied = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copied)


def _every_name(graph: GraphProto) -> set[str]:
    """The names of all tensors of a graph and its bodies."""
    found: set[str] = set()
    for inner in graphs(graph):
        found.update(value.name for value in (*inner.input, *inner.initializer))
        found.update(name for node in inner.node for name in (*node.input, *node.output))
    return found


class _Scope:
    """A graph, and what is known about the tensors that its nodes can see."""

    def __init__(self, graph: GraphProto, opsets: dict[str, int], outer: _Scope | None = None) -> None:
        def inherited(name: str) -> Any:
            return getattr(outer, name).new_child() if outer else ChainMap()

        self._graph = graph
        self._opsets = opsets
        self._outputs = {value.name for value in graph.output}
        self._renamed: _Chained[str] = inherited("_renamed")
        self._constants: _Chained[TensorProto] = inherited("_constants")
        self._types: _Chained[int] = inherited("_types")
        self._makers: _Chained[NodeProto] = inherited("_makers")
        self._same: _Chained[list[str]] = inherited("_same")
        for value in (*graph.input, *graph.output, *graph.value_info):
            self._types[value.name] = value.type.tensor_type.elem_type
        for tensor in graph.initializer:
            self._add(tensor)

    def simplify(self) -> None:
        """Apply the rules to each node, from the inputs to the outputs."""
        replaced = []
        for k, node in enumerate(self._graph.node):
            node.input[:] = [self._renamed.get(name, name) for name in node.input]
            equal = self._equal(node)
            if equal is not None and len(equal) == 1 and node.output[0] in self._outputs:
                copy = helper.make_node("Identity", equal, list(node.output), name=node.name)
                node.CopyFrom(copy)
            elif equal is not None and self._outputs.isdisjoint(node.output):
                self._renamed.update(zip(node.output, equal, strict=True))
                replaced.append(k)
                continue
            self._makers.update(dict.fromkeys(node.output, node))
            for body in subgraphs(node):
                _Scope(body, self._opsets, self).simplify()
        for k in reversed(replaced):
            del self._graph.node[k]

    def constant(self, name: str) -> Array | None:
        """The value of a constant of numbers; None for anything else."""
        tensor = self._constants.get(name)
        if tensor is None or tensor.data_type == TensorProto.STRING or tensor.external_data:
            return None
        return array_of(tensor)

    def maker(self, name: str, *op_types: str) -> NodeProto | None:
        """The node that makes a tensor, if it is of one of these types."""
        node = self._makers.get(name)
        return node if node is not None and node.domain == "" and node.op_type in op_types else None

    def dtype(self, name: str) -> int:
        """The element type of a tensor; 0 if it is not known."""
        return self._types.get(name, 0)

    def add_constant(self, wanted: str, array: Array) -> str:
        """Add a constant, named as wanted if no other tensor is; returns its name, or that of an equal constant."""
        name, number = wanted, 0
        while name in self._types or name in self._makers:
            number += 1
            name = f"{wanted}_{number}"
        tensor = numpy_helper.from_array(array, name)
        equal = self._add(tensor)
        if equal == name:
            self._graph.initializer.append(tensor)
        return equal

    def _add(self, tensor: TensorProto) -> str:
        """Take note of a constant; returns its name, or that of an equal one."""
        self._types[tensor.name] = tensor.data_type
        self._constants[tensor.name] = tensor
        if int(np.prod(tensor.dims)) > _COMPARED or tensor.external_data:
            return tensor.name
        content = TensorProto()
        content.CopyFrom(tensor)
        content.ClearField("name")
        (first,) = self._same.setdefault(str(content.SerializeToString(deterministic=True)), [tensor.name])
        if first != tensor.name:
            self._renamed[tensor.name] = first
        return first

    def _equal(self, node: NodeProto) -> list[str] | None:
        """Tensors that are equal to the outputs of a node; None if it is needed."""
        equal = _RULES[node.op_type](self, node) if node.domain == "" and node.op_type in _RULES else None
        if equal is not None:
            return [equal]
        array = self._folded(node)
        if array is not None:
            return [self.add_constant(node.output[0], array)]
        if node.op_type == "Identity" or node.op_type.startswith(_RANDOM) or subgraphs(node):
            return None
        content = NodeProto()
        content.CopyFrom(node)
        content.ClearField("name")
        content.output[:] = [""] * len(node.output)
        first = self._same.setdefault(str(content.SerializeToString(deterministic=True)), list(node.output))
        return None if first == list(node.output) else first

    def _folded(self, node: NodeProto) -> Array | None:
        """The output of a node whose inputs are constants."""
        if node.domain != "" or node.op_type not in _FOLDED:
            return None
        given: dict[str, Array] = {}
        for name in filter(None, node.input):
            array = self.constant(name)
            if array is None:
                return None
            given[name] = array
        return folded(node, given, self._opsets, max(_LARGE, sum(array.size for array in given.values())))


def _copy(scope: _Scope, node: NodeProto) -> str | None:
    source: str = node.input[0]
    return source


def _cast(scope: _Scope, node: NodeProto) -> str | None:
    to, inner = attribute(node, "to"), scope.maker(node.input[0], "Cast")
    if inner is not None and _holds(attribute(inner, "to"), scope.dtype(inner.input[0])):
        node.input[0] = inner.input[0]
    source: str = node.input[0]
    return source if scope.dtype(source) == to else None


def _holds(wide: int, narrow: int) -> bool:
    """Whether an element type holds every value of another one."""
    if not narrow or TensorProto.STRING in (wide, narrow):
        return False
    if wide in HALF_FLOATS or narrow in HALF_FLOATS:
        return wide == narrow or (narrow in HALF_FLOATS and wide in (TensorProto.FLOAT, TensorProto.DOUBLE))
    source, target = numpy_dtype(narrow), numpy_dtype(wide)
    inexact = source.kind in "iu" and target.kind == "f" and source.itemsize >= target.itemsize
    return bool(np.can_cast(source, target, "safe")) and not inexact  # to numpy, int64 to double is safe


def _transpose(scope: _Scope, node: NodeProto) -> str | None:
    order, inner = attribute(node, "perm"), scope.maker(node.input[0], "Transpose")
    before = attribute(inner, "perm") if inner is not None else None
    if inner is not None and order and before:
        order = [before[axis] for axis in order]
        node.input[0] = inner.input[0]
        node.attribute[0].CopyFrom(helper.make_attribute("perm", order))
    return node.input[0] if order and order == sorted(order) else None


def _unsqueeze(scope: _Scope, node: NodeProto) -> str | None:
    inner = scope.maker(node.input[0], "Squeeze")
    return inner.input[0] if inner is not None and inner.input[1:] == node.input[1:] else None


_RULES: dict[str, Callable[[_Scope, NodeProto], str | None]] = {
    "Identity": _copy,
    "Cast": _cast,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


def _drop_unused(graph: GraphProto) -> None:
    """Drop the nodes, constants and types of a graph and of its bodies that nothing uses."""
    used = {value.name for value in graph.output}
    for k in reversed(range(len(graph.node))):
        node = graph.node[k]
        if used.isdisjoint(node.output):
            del graph.node[k]
            continue
        used.update(node.input)
        for body in subgraphs(node):
            _drop_unused(body)
            for inner in graphs(body):
                used.update(name for other in inner.node for name in other.input)
                used.update(value.name for value in inner.output)
    made = {name for node in graph.node for name in node.output}
    for values, needed in ((graph.initializer, used), (graph.value_info, made)):
        for k in reversed(range(len(values))):
            if values[k].name not in needed:
                del values[k]
