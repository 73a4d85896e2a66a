"""ATB graphs in the form that every reader returns: flat, tensors by name, nodes in execution order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.models.graphs import Names

#: The path of an operation: position and `opType` of each enclosing graph, outermost first, then of the operation.
#: The empty path is the graph itself.
NodePath = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class AtbNode:
    """One operation.

    Attributes:
        name: `opName`, unique or not.
        op_type: `opType`; empty for a plugin operation, of which dumps keep only the name.
        param: Its parameters as in the file: an object, "" or None.
        inputs: Names of the tensors it reads.
        outputs: Names of the tensors it writes.
        path: Its position.
    """

    name: str
    op_type: str
    param: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    path: NodePath

    @property
    def kind(self) -> str:
        """The operation's type without `Operation`: MindIE writes `Fill` where ATB writes `FillOperation`."""
        return self.op_type.removesuffix("Operation")


@dataclass(frozen=True)
class AtbGroup:
    """A graph within a graph, whose operations are among the outer graph's nodes.

    Attributes:
        name: `opName`.
        op_type: `opType`.
        outputs: Names of the tensors of the whole graph that it writes.
        path: Its position.
    """

    name: str
    op_type: str
    outputs: tuple[str, ...]
    path: NodePath


@dataclass(frozen=True)
class AtbGraph:
    """A graph.

    Attributes:
        name: `opName` or `modelName`.
        op_type: `opType`; empty for a whole model.
        inputs: Names of the graph's inputs.
        outputs: Names of its outputs.
        nodes: Its operations in execution order.
        weights: The inputs that are weights according to the file.
        open: Whether the file does not list inputs and outputs. Then tensors that are read but not written before are
            inputs, and tensors that are never read are outputs.
        groups: The graphs within it, outer ones first.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[AtbNode, ...]
    weights: frozenset[str] = frozenset()
    open: bool = False
    groups: tuple[AtbGroup, ...] = ()


@dataclass
class _Versions:
    """The tensor that a name in the source denotes at some point of the execution."""

    current: dict[str, str] = field(default_factory=dict)
    writer: dict[str, AtbNode] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)


def with_unique_writes(graph: AtbGraph, written: Callable[[AtbNode], tuple[str, ...]]) -> AtbGraph:
    """The graph in which every tensor is written once: an operation that writes in place writes a new tensor.

    The name stays with the last version of an output of the graph, and with the first version of any other tensor. If
    the last version of a graph input is written by an operation and never read, it is also an output.

    Args:
        graph: A graph.
        written: Returns the names that a node writes; some operations have no outputs and write an input.

    Raises:
        ConversionError: A tensor is read before it is written, written twice at once, or an output is never written.
    """
    graph = _with_interface(graph, written) if graph.open else graph
    for where, names in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ConversionError(f"{graph.name}: {twice[0]} is listed twice among the graph's {where}")
    writes = [written(node) for node in graph.nodes]
    left = Counter(name for names in writes for name in names)
    later = dict(left)
    free = Names({*graph.inputs, *graph.outputs, *later})
    kept = set(graph.outputs) - set(graph.inputs)
    versions = _Versions({name: name for name in graph.inputs})
    nodes = []
    groups = _Ends(graph)
    for node, targets in zip(graph.nodes, writes, strict=True):
        for name in node.inputs:
            if name not in versions.current:
                raise ConversionError(_undefined(graph, node, name, defined_later=name in later))
        inputs = tuple(versions.current[name] for name in node.inputs)
        versions.read.update(inputs)
        if len(set(targets)) < len(targets):
            raise ConversionError(f"{node.name} writes one tensor twice: {', '.join(targets)}")
        outputs = []
        for name in targets:
            _check_overwritten(versions, node, name)
            left[name] -= 1
            first = name not in versions.current
            keeps_name = not left[name] if name in kept else first
            outputs.append(name if keeps_name else free.fresh(name))
        for name, output in zip(targets, outputs, strict=True):
            versions.current[name], versions.writer[output] = output, node
        nodes.append(replace(node, inputs=inputs, outputs=tuple(outputs)))
        groups.resolve(node, versions.current)
    missing = [name for name in graph.outputs if name not in versions.current]
    if missing:
        raise ConversionError(f"{graph.name}: no operation writes the graph's output {missing[0]}")
    updated = [
        versions.current[name]
        for name in graph.inputs
        if name not in graph.outputs and name in later and versions.current[name] not in versions.read
    ]
    outputs_now = (*(versions.current[name] for name in graph.outputs), *updated)
    return replace(graph, nodes=tuple(nodes), outputs=outputs_now, open=False, groups=tuple(groups.resolved))


class _Ends:
    """Finds what the outputs of each group denote after the last of its operations."""

    def __init__(self, graph: AtbGraph) -> None:
        self.resolved: list[AtbGroup] = []
        last = {node.path[:depth]: node.path for node in graph.nodes for depth in range(1, len(node.path))}
        self._ending: dict[NodePath, list[AtbGroup]] = {}
        for group in graph.groups:
            if group.path in last:
                self._ending.setdefault(last[group.path], []).append(group)

    def resolve(self, node: AtbNode, current: Mapping[str, str]) -> None:
        """Resolve the groups that end with an operation."""
        for group in self._ending.get(node.path, ()):
            self.resolved.append(replace(group, outputs=tuple(current.get(name, name) for name in group.outputs)))


def _with_interface(graph: AtbGraph, written: Callable[[AtbNode], tuple[str, ...]]) -> AtbGraph:
    """Derive inputs and outputs from the operations, for a file that does not list them."""
    inputs: dict[str, None] = dict.fromkeys(graph.inputs)
    unread: dict[str, None] = {}
    made: set[str] = set()
    for node in graph.nodes:
        for name in node.inputs:
            unread.pop(name, None)
            if name not in made:
                inputs[name] = None
        for name in written(node):
            made.add(name)
            unread[name] = None
    outputs = graph.outputs or tuple(name for name in unread if name not in inputs)
    weights = frozenset(name for name in inputs if re.search(r"_weight_\d+$", name))
    return replace(graph, inputs=tuple(inputs), outputs=outputs, weights=graph.weights | weights)


def _undefined(graph: AtbGraph, node: AtbNode, name: str, *, defined_later: bool) -> str:
    if defined_later:
        return f"{node.name} reads {name} before any operation has written it: a cycle, or not in execution order"
    return f"{node.name} reads {name}, which is not an input of {graph.name} and which no operation writes"


def _check_overwritten(versions: _Versions, node: AtbNode, name: str) -> None:
    """Refuse to overwrite an unread result, a sign of a broken graph, unless its writer has several results."""
    old = versions.current.get(name)
    writer = versions.writer.get(old) if old is not None else None
    if writer is not None and old not in versions.read and len(writer.outputs) <= 1:
        raise ConversionError(f"{writer.name} and {node.name} both write {name}, and nothing reads the first of them")


def strings(value: Any) -> Iterable[str]:
    """The strings of a list in a file; raises TypeError for anything else."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise TypeError(f"expected a list of names, found {str(value)[:60]!r}")
    return value
