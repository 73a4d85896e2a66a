"""A graph and the functions that it calls, without inlining them: every tensor has one origin, across all calls.

A call has a `Scope` of its own, in which the function's arguments are the tensors of the caller. Following a tensor to
its origin passes through calls, arguments and copies, so that a graph is read as if all functions stood in it. Control
inputs order effects and make no values; they are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.tensorflow.reading.conditions import BRANCHES, only_branch
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.operators import operators

#: The operators that call a function with their inputs and return what it returns.
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
#: The operators that pass their first input on.
COPIES = frozenset({"Identity", "PlaceholderWithDefault", "StopGradient", "PreventGradient", "Snapshot", "RefIdentity"})
#: The operators that pass all their inputs on, each as an output.
TUPLES = frozenset({"IdentityN"})

#: The names of calls that nobody has named.
_UNNAMED = re.compile(r"(Stateful)?PartitionedCall(_\d+)?")

#: How deep functions may call each other, and how many calls a model may have, functions in functions counted anew.
MOST_DEPTH = 200
MOST_CALLS = 100_000


class Origin(NamedTuple):
    """The output of a node that is no call and no copy."""

    scope: Scope
    node: str
    output: int


@dataclass(frozen=True)
class Library:
    """The functions of a model by name, and how many calls have been read."""

    functions: Mapping[str, Any]
    calls: list[int]

    @classmethod
    def of(cls, functions: Sequence[Any]) -> Library:
        """The library of a GraphDef."""
        return cls({function.signature.name: function for function in functions}, [0])

    def __getitem__(self, name: str) -> Any:
        if name not in self.functions:
            raise Unsupported(f"it calls the function {name!r}, which is not in the model")
        return self.functions[name]


class Scope:
    """A graph, or a function with its arguments.

    Args:
        nodes: Its nodes.
        library: The functions of the model.
        name: What the names of its nodes begin with; empty for the graph.
        arguments: What a function is called with, by the names of its arguments: origins, or values that stand for
            themselves.
        returned: The tensors that a function returns, in order.
        frame: Where the nodes are converted to; a function's is that of its caller when omitted.
        caller: The scope of the call.
        site: The node that calls.

    Attributes:
        whole: The graph or function that it is a part of; itself in most cases.
        changes: Whether a node changes a variable or table; None if it has not been looked for.
        fed: The tensors of a graph that are inputs, as (node, output), and what is fed for them.

    Raises:
        ConversionError: Two nodes have one name.
    """

    def __init__(
        self,
        nodes: Sequence[NodeDef],
        library: Library,
        *,
        name: str = "",
        depth: int = 0,
        arguments: Mapping[str, Any] | None = None,
        returned: Sequence[str] = (),
        frame: Any = None,
        caller: Scope | None = None,
        site: NodeDef | None = None,
    ) -> None:
        self.nodes: Mapping[str, NodeDef] = {node.name: node for node in nodes}
        if len(self.nodes) < len(nodes):
            names = [node.name for node in nodes]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConversionError(f"two nodes are named {twice!r}")
        self.library = library
        self.name = name
        self.arguments = arguments
        self.returned = tuple(returned)
        self._frame = frame
        self.caller = caller
        self.site = site
        self.changes: bool | None = None
        self.whole = self
        self.fed: dict[tuple[str, int], Any] = {}
        self._depth = depth
        self._calls: dict[str, Scope] = {}
        self._only_branches: dict[str, str | None] = {}

    def __repr__(self) -> str:
        return f"Scope({self.name!r})"

    @property
    def frame(self) -> Any:
        """Where the nodes are converted to."""
        scope: Scope | None = self
        while scope is not None and scope._frame is None:
            scope = scope.caller
        return None if scope is None else scope._frame

    @frame.setter
    def frame(self, frame: Any) -> None:
        self._frame = frame

    def origin(self, tensor: str) -> Any:
        """The origin of a tensor, `"node:1"`, or in a function `"node:output:1"`; a value that an argument stands for.

        Raises:
            Unsupported: There is no such tensor, or it is made from itself.
        """
        scope: Scope = self
        seen: set[tuple[int, str]] = set()
        while True:
            if (id(scope), tensor) in seen:
                raise Unsupported(f"the tensor {tensor} is made from itself")
            seen.add((id(scope), tensor))
            node_name, output, index = parts_of(tensor)
            if scope.arguments is not None and not output and node_name in scope.arguments:
                given = scope.arguments[node_name]
                if not isinstance(given, tuple) or isinstance(given, Origin):
                    return given
                scope, tensor = given  # the caller's tensor
                continue
            node = scope.nodes.get(node_name)
            if node is None:
                raise Unsupported(f"it reads {tensor}, which nothing makes")
            position = scope.position(node, output, index)
            if (node_name, position) in scope.fed:
                given = scope.fed[node_name, position]
                if not isinstance(given, tuple) or isinstance(given, Origin):
                    return given
                scope, tensor = given
                continue
            if scope.calls(node):
                scope, tensor = scope.call(node)._result(position)
            elif node.op in COPIES:
                tensor = _data_inputs(node)[0]
            elif node.op in TUPLES:
                tensor = _nth(_data_inputs(node), position, node)
            else:
                return Origin(scope, node_name, position)

    def results(self) -> list[Any]:
        """The origins of what a function returns."""
        return [self.origin(tensor) for tensor in self.returned]

    def origins(self, node: NodeDef) -> list[Any]:
        """The origins of a node's inputs.

        Raises:
            Unsupported: It has not as many as its operator, or one of them is not known.
        """
        return [self.origin(name) for name in self.data_inputs(node)]

    def data_inputs(self, node: NodeDef) -> list[str]:
        """The tensors that a node reads, as many as its operator has inputs.

        Raises:
            Unsupported: It reads others.
        """
        names = _data_inputs(node, least=0)
        operator = None if node.op in self.library.functions else operators().get(node.op)
        if operator is not None and not operator.takes(len(names)):
            raise Unsupported(f"it has {len(names)} inputs, not {len(operator.inputs)}")
        return names

    def position(self, node: NodeDef, output: str, index: int) -> int:
        """The position of an output of a node that is named by its argument in the operator's declaration."""
        if not output:
            return index
        if node.op in CALLS or node.op in COPIES or node.op in TUPLES or node.op in self.library.functions:
            if node.op in self.library.functions:
                names = [arg.name for arg in self.library[node.op].signature.output_arg]
                return names.index(output) + index if output in names else index
            return index
        operator = operators().get(node.op)
        if operator is None:
            return index  # it is refused by its name
        before = 0
        for name, types in operator.outputs_of(node.attr).items():
            if name == output:
                if index >= len(types):
                    break
                return before + index
            before += len(types)
        raise Unsupported(f"{node.op} has no output {output}:{index}")

    def calls(self, node: NodeDef) -> bool:
        """Whether a node calls one function, also as the only one of its branches that can run."""
        is_call = node.op in CALLS or node.op in self.library.functions
        return is_call or (node.op in BRANCHES and self._only_branch(node) is not None)

    def _only_branch(self, node: NodeDef) -> str | None:
        graph = self
        while graph.caller is not None:
            graph = graph.caller
        if not graph.fed:  # an input may stand for the default that would decide
            return None
        if node.name not in self._only_branches:
            self._only_branches[node.name] = None  # of a condition that is made from itself
            self._only_branches[node.name] = only_branch(self, node)
        return self._only_branches[node.name]

    def call(self, node: NodeDef) -> Scope:
        """The scope of a call."""
        if node.name not in self._calls:
            name = node.attr["f"].func.name if node.op in CALLS else node.op
            given = [(self, tensor) for tensor in _data_inputs(node, least=0)]
            if node.op in BRANCHES:
                name, given = self._only_branch(node) or name, given[1:]
            own = "" if _UNNAMED.fullmatch(node.name) else f"{node.name}/"
            self._calls[node.name] = self.function(name, given, f"{self.name}{own}", site=node)
        return self._calls[node.name]

    def function(
        self, name: str, given: Sequence[Any], prefix: str, frame: Any = None, site: NodeDef | None = None
    ) -> Scope:
        """The scope of a function.

        Args:
            name: Its name.
            given: Its arguments: values, or pairs of a scope and a tensor in it.
            prefix: What the names of its nodes begin with.
            frame: Where its nodes are converted to; that of this scope when omitted.
            site: The node that calls it.
        """
        definition = self.library[name]
        self.library.calls[0] += 1
        if self._depth >= MOST_DEPTH:
            raise Unsupported(f"functions call each other more than {MOST_DEPTH} deep")
        if self.library.calls[0] > MOST_CALLS:
            raise Unsupported(f"functions call each other more than {MOST_CALLS} times")
        arguments = [argument.name for argument in definition.signature.input_arg]
        if len(arguments) != len(given):
            raise Unsupported(f"it calls {name} with {len(given)} arguments, not {len(arguments)}")
        results = [argument.name for argument in definition.signature.output_arg]
        if missing := [result for result in results if result not in definition.ret]:
            raise Unsupported(f"the function {name} does not return {missing[0]}")
        return Scope(
            definition.node_def,
            self.library,
            name=prefix,
            depth=self._depth + 1,
            arguments=dict(zip(arguments, given, strict=True)),
            returned=[definition.ret[result] for result in results],
            frame=frame,
            caller=self,
            site=site,
        )

    def part(self, fed: Mapping[tuple[str, int], Any], prefix: str, frame: Any) -> Scope:
        """The same nodes with other tensors in place of some: a branch, or a round of a loop, of TensorFlow 1.

        Args:
            fed: What stands for outputs of nodes: values, or pairs of a scope and a tensor in it.
            prefix: What the names of its nodes begin with.
            frame: Where its nodes are converted to.

        Raises:
            Unsupported: There are too many parts, or parts of parts.
        """
        self.library.calls[0] += 1
        if self._depth >= MOST_DEPTH or self.library.calls[0] > MOST_CALLS:
            raise Unsupported("branches and loops stand in each other too often")
        made = Scope(
            (), self.library, name=prefix, depth=self._depth + 1, arguments=self.arguments, frame=frame, caller=self
        )
        made.nodes, made.whole = self.nodes, self.whole
        made.fed = {**self.fed, **fed}
        return made

    def every(self) -> Iterator[tuple[Scope, NodeDef]]:
        """The nodes of this scope and of the functions that it calls, with their scopes."""
        waiting = [self]
        while waiting:
            scope = waiting.pop()
            for node in scope.nodes.values():
                yield scope, node
                if scope.calls(node):
                    try:
                        waiting.append(scope.call(node))
                    except Unsupported:  # which is an error where the call is needed
                        continue

    def _result(self, position: int) -> tuple[Scope, str]:
        if position >= len(self.returned):
            raise Unsupported(f"the function returns {len(self.returned)} tensors; number {position} is read")
        return self, self.returned[position]


def parts_of(tensor: str) -> tuple[str, str, int]:
    """The node, the output argument (empty if not named) and the number of a tensor."""
    node, *rest = tensor.split(":")
    output = rest[0] if len(rest) == 2 else ""
    number = rest[-1] if rest else "0"
    if len(rest) > 2 or not number.isdecimal() or len(number) > 9:
        raise Unsupported(f"it reads {tensor[:80]!r}, which is not a tensor")
    return node, output, int(number)


def _data_inputs(node: NodeDef, least: int = 1) -> list[str]:
    """The inputs of a node, without control inputs."""
    inputs = [name for name in node.input if not name.startswith("^")]
    if len(inputs) < least:
        raise Unsupported(f"it reads {node.name} ({node.op}), which has no input")
    return inputs


def _nth(inputs: Sequence[str], position: int, node: NodeDef) -> str:
    if position >= len(inputs):
        raise Unsupported(f"{node.op} has no output {position}")
    return inputs[position]
