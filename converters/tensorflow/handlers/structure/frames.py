"""Branches and loops of TensorFlow 1: Switch and Merge; Enter, Merge, Switch, NextIteration and Exit.

A branch is the same graph in which what its Switches pass on are the tensors that these take. A round of a loop is the
same graph in which its Switches pass on the variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, structure
from onnx_sparse.converters.tensorflow.handlers.structure.branches import (
    branch_graph,
    common_shape,
    outer_origins,
    truth,
    written_if,
)
from onnx_sparse.converters.tensorflow.handlers.structure.loop_sources import Source
from onnx_sparse.converters.tensorflow.handlers.structure.loops import converted_loop
from onnx_sparse.converters.tensorflow.importing.context import Context, Frame
from onnx_sparse.converters.tensorflow.importing.values import Value
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Scope, parts_of
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_SWITCHES = ("Switch", "RefSwitch")
_ENTERS = ("Enter", "RefEnter")


def _data(node: NodeDef) -> list[str]:
    return [name for name in node.input if not name.startswith("^")]


def _node(scope: Scope, tensor: str) -> Any:
    name = tensor.removeprefix("^").partition(":")[0]
    if name not in scope.nodes:
        raise Unsupported(f"it reads {tensor}, which nothing makes")
    return scope.nodes[name]


def _maker(scope: Scope, tensor: str) -> Any:
    """The node that makes a tensor; None if it is an argument of the function."""
    is_argument = scope.arguments is not None and tensor.partition(":")[0] in scope.arguments
    return None if is_argument else _node(scope, tensor)


def _is_of_loop(scope: Scope, node: NodeDef) -> bool:
    """Whether a Switch or Merge passes on a variable of a loop."""
    kind = "LoopCond" if node.op in _SWITCHES else "NextIteration"
    makers = (_maker(scope, tensor) for tensor in _data(node))
    return any(maker is not None and maker.op == kind for maker in makers)


def _predicate(scope: Scope, switch: Any) -> str:
    """The tensor on which a Switch depends, without copies."""
    if len(_data(switch)) != 2:
        raise Unsupported(f"{switch.name} has {len(_data(switch))} inputs; a Switch has two")
    tensor = _data(switch)[1]
    for _ in range(len(scope.nodes)):
        node = _maker(scope, tensor)
        if node is None or node.op != "Identity" or not _data(node):
            return tensor if tensor.count(":") > 1 else tensor.removesuffix(":0")
        tensor = _data(node)[0]
    raise Unsupported(f"the tensor {tensor} is made from itself")


def _guards(scope: Scope, start: str, merges: frozenset[str]) -> set[tuple[str, int]]:
    """On which predicates, true (1) or false (0), it depends whether a tensor is made.

    Args:
        scope: Where it is made.
        start: The tensor.
        merges: The Merges behind it.
    """
    found: set[tuple[str, int]] = set()
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        tensor = waiting.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        node = _maker(scope, tensor)
        if node is None:
            continue
        if node.op in _SWITCHES and not _is_of_loop(scope, node):
            if not tensor.startswith("^"):
                _, output, number = parts_of(tensor)
                found.add((_predicate(scope, node), scope.position(node, output, number)))
        elif node.op == "Merge" and not _is_of_loop(scope, node):  # another condition, within the branch
            predicate, _ = _condition_of(scope, node, merges)
            waiting.append(predicate)
            waiting += [_data(switch)[0] for switch in _switches(scope, predicate)]
        else:
            waiting += list(node.input)
    return found


def _condition_of(scope: Scope, merge: Any, merges: frozenset[str] = frozenset()) -> tuple[str, list[int]]:
    """The predicate of a Merge, and for each of its inputs whether it is that of true (1) or of false (0)."""
    inputs = _data(merge)
    if len(inputs) == 2 and merge.name not in merges:
        one, other = (_guards(scope, tensor, merges | {merge.name}) for tensor in inputs)
        for predicate, side in sorted(one):
            if (predicate, 1 - side) in other and (predicate, 1 - side) not in one:
                return predicate, [side, 1 - side]
    raise Unsupported("the condition on which it depends is not known")


def _switches(scope: Scope, predicate: str) -> list[Any]:
    return [
        node
        for node in scope.nodes.values()
        if node.op in _SWITCHES and not _is_of_loop(scope, node) and _predicate(scope, node) == predicate
    ]


def _branches(context: Context, scope: Scope, merge: Any) -> tuple[str, list[int], list[Scope]]:
    """The predicate and sides of a Merge, and the scopes in which its inputs are made, that of false first."""
    predicate, sides = _condition_of(scope, merge)
    key = (id(scope), merge.name)
    if key not in context.branches:
        made = []
        for side in (0, 1):
            fed = {(node.name, side): (scope, _data(node)[0]) for node in _switches(scope, predicate)}
            part = scope.part(fed, f"{scope.name}{merge.name}/{side}/", scope.frame.body())
            part.returned = (_data(merge)[sides.index(side)],)
            made.append(context.keep(part))
        context.branches[key] = made
    return predicate, sides, context.branches[key]


def _reads(context: Context, scope: Scope, merge: Any) -> list[Any]:
    predicate, _, parts = _branches(context, scope, merge)
    found = [scope.origin(predicate)]
    for part in parts:
        found += outer_origins(context, part, part.results())
    return found


@structure("Merge", "RefMerge", reads=_reads)
def merge_branches(node: GraphNode, emit: InferringEmitter) -> tuple[Value, ...]:
    """An If: what the branch that is computed makes, and the number of the input that this is."""
    context, scope = node.context, node.scope
    predicate, sides, parts = _branches(context, scope, node)
    (condition,) = context.tensors([scope.origin(predicate)])
    origins = [origin for part in parts for origin in part.results()]
    context.convert(origins)
    results = context.tensors(origins)
    node.begin()
    if results[0].dtype != results[1].dtype:
        raise Unsupported("its branches make different types")
    graphs = []
    for side, (part, result) in enumerate(zip(parts, results, strict=True)):
        number = part.frame.emit.constant(np.array(sides.index(side), np.int32))
        graphs.append(branch_graph(part.frame.emit, [result, number], f"{node.name}_{side}"))
    dtypes = [results[0].dtype, int(TensorProto.INT32)]
    shapes = [common_shape([result.shape for result in results]), ()]
    return written_if(truth(condition, emit), graphs[1], graphs[0], dtypes, shapes, emit)


class _Cycle(Source):
    """A loop as a cycle of nodes.

    Args:
        scope: The scope in which it stands.
        condition: Its LoopCond.
    """

    def __init__(self, scope: Scope, condition: Any) -> None:
        super().__init__(scope, f"{scope.name}{condition.name}")
        self._condition = condition
        self.switches = [
            node
            for node in scope.nodes.values()
            if node.op in _SWITCHES and len(_data(node)) == 2 and _node(scope, _data(node)[1]).name == condition.name
        ]
        self._merges = [_node(scope, _data(switch)[0]) for switch in self.switches]
        self._enters, self._next = [], []
        for each in self._merges:
            makers = {_node(scope, tensor).op: _node(scope, tensor) for tensor in _data(each)}
            enter = next((makers[op] for op in _ENTERS if op in makers), None)
            following = makers.get("NextIteration")
            if len(_data(each)) != 2 or enter is None or following is None:
                raise Unsupported(f"{each.name} is not a variable of a loop")
            if not _data(enter) or not _data(following) or not _data(condition):
                raise Unsupported(f"the loop of {condition.name} is not whole")
            self._enters.append(enter)
            self._next.append(following)

    def initial(self) -> list[Any]:
        """The origins of the variables before the loop."""
        return [self.scope.origin(_data(enter)[0]) for enter in self._enters]

    def body(self, context: Context, variables: Sequence[Any], prefix: str, frame: Frame) -> list[Any]:
        """See `Source`."""
        fed = {(switch.name, 1): value for switch, value in zip(self.switches, variables, strict=True)}
        part = self._part(context, fed, prefix, frame)
        return [part.origin(_data(node)[0]) for node in self._next]

    def condition(self, context: Context, variables: Sequence[Any], prefix: str, frame: Frame) -> Any:
        """See `Source`."""
        fed = {(each.name, 0): value for each, value in zip(self._merges, variables, strict=True)}
        return self._part(context, fed, prefix, frame).origin(_data(self._condition)[0])

    def _part(self, context: Context, fed: Mapping[tuple[str, int], Any], prefix: str, frame: Frame) -> Scope:
        return context.keep(self.scope.part({**dict(self._constants()), **fed}, prefix, frame))

    def _constants(self) -> Iterator[tuple[tuple[str, int], Any]]:
        """What enters the loop, by the node that lets it in."""
        name = self._enters[0].attr["frame_name"].s if self._enters else b""
        for node in self.scope.nodes.values():
            if node.op in _ENTERS and _data(node) and node.attr["frame_name"].s == name:
                yield (node.name, 0), (self.scope, _data(node)[0])


def _cycle(scope: Scope, end: Any) -> tuple[_Cycle, int]:
    """The loop that an Exit leaves, and the number of the variable that it takes out."""
    switch = _node(scope, _data(end)[0]) if _data(end) else end
    if switch.op not in _SWITCHES or len(_data(switch)) != 2 or _node(scope, _data(switch)[1]).op != "LoopCond":
        raise Unsupported("it leaves no loop")
    cycle = _Cycle(scope, _node(scope, _data(switch)[1]))
    return cycle, [each.name for each in cycle.switches].index(switch.name)


def _initial(context: Context, scope: Scope, end: Any) -> list[Any]:
    return _cycle(scope, end)[0].initial()


@structure("Exit", "RefExit", reads=_initial)
def leave(node: GraphNode, emit: InferringEmitter) -> Value:
    """A Loop. It takes one variable out of it."""
    context, scope = node.context, node.scope
    cycle, number = _cycle(scope, node)
    key = (id(scope), cycle.name)
    if key not in context.loops:
        context.loops[key] = converted_loop(context, cycle, context.values(cycle.initial()))
    return context.loops[key][number]
