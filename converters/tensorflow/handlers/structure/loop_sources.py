"""The loops of TensorFlow's graphs: their functions, and which variables are needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.importing.context import Context, Frame
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import COPIES, Origin, Scope, parts_of


class Variable:
    """Stands for a variable of a loop while it is examined."""


class Source(ABC):
    """A loop in TensorFlow's graph: its condition and its body, which are read anew for each use.

    Attributes:
        scope: The scope in which the loop stands.
        name: Its name.
    """

    def __init__(self, scope: Scope, name: str) -> None:
        self.scope = scope
        self.name = name

    @abstractmethod
    def body(self, context: Context, variables: Sequence[Any], prefix: str, frame: Frame) -> list[Any]:
        """The origins of the variables after a round.

        Args:
            context: The conversion.
            variables: What stands for the variables before it.
            prefix: What the names of the nodes begin with.
            frame: Where these are converted to.
        """

    @abstractmethod
    def condition(self, context: Context, variables: Sequence[Any], prefix: str, frame: Frame) -> Any:
        """The origin of whether there is another round; see `body`."""


class Functions(Source):
    """A loop as a node with two functions.

    Args:
        scope: The scope of the node.
        node: The node.
        live: Which of its variables there are; all when omitted. The others have no values.
    """

    def __init__(self, scope: Scope, node: NodeDef, live: Sequence[int] | None = None) -> None:
        super().__init__(scope, f"{scope.name}{node.name}")
        self._node = node
        self.count = len(scope.origins(node))
        self._live = range(self.count) if live is None else live

    def body(self, context: Context, variables: Sequence[Any], prefix: str, frame: Frame) -> list[Any]:
        """See `Source`."""
        results = self._called("body", context, variables, prefix, frame)
        if len(results) != self.count:
            raise Unsupported(f"its body returns {len(results)} of {self.count} variables")
        return [results[k] for k in self._live]

    def condition(self, context: Context, variables: Sequence[Any], prefix: str, frame: Frame) -> Any:
        """See `Source`."""
        results = self._called("cond", context, variables, prefix, frame)
        if len(results) != 1:
            raise Unsupported("its condition returns not one tensor")
        return results[0]

    def _called(self, which: str, context: Context, variables: Sequence[Any], prefix: str, frame: Frame) -> list[Any]:
        name = self._node.attr[which].func.name
        given: list[Any] = [Variable() for _ in range(self.count)]
        for k, variable in zip(self._live, variables, strict=True):
            given[k] = variable
        return context.keep(self.scope.function(name, given, prefix, frame, self._node)).results()


def live_variables(context: Context, scope: Scope, node: NodeDef) -> list[int]:
    """The variables of a loop that its results which are read need, or its condition, through all rounds.

    TensorFlow 1 adds a list of each intermediate value for gradients that a model does not compute.
    """
    key = id(scope), node.name
    if key not in context.live:
        source = Functions(scope, node)
        variables = [Variable() for _ in range(source.count)]
        results = source.body(context, variables, "", scope.frame.body())
        test = source.condition(context, variables, "", scope.frame.body())
        live, wanted = {*_read_results(context, scope, node)}, [test]
        wanted += [results[k] for k in live]
        while wanted:
            readers = readers_of(context, wanted)
            reached = {k for k, variable in enumerate(variables) if id(variable) in readers or variable in wanted}
            wanted = [results[k] for k in reached - live]
            live |= reached
        context.live[key] = sorted(live)
    return context.live[key]


def _read_results(context: Context, scope: Scope, node: NodeDef) -> set[int]:
    """Which results of a node anything reads but copies that nothing reads."""
    readers: dict[str, list[tuple[str, Any]]] = {}
    for other in scope.nodes.values():
        for tensor in other.input:
            readers.setdefault(tensor.partition(":")[0], []).append((tensor, other))
    ends = [*scope.returned]
    if scope is context.model.graph:
        ends += [port.tensor for port in context.model.outputs]
    for tensor in ends:
        readers.setdefault(tensor.partition(":")[0], []).append((tensor, None))

    def is_read(reader: Any) -> bool:
        if reader is None or reader.op not in COPIES:
            return True
        return any(is_read(after) for _, after in readers.get(reader.name, ()))

    found = set()
    for tensor, reader in readers.get(node.name, ()):
        if is_read(reader):
            _, output, index = parts_of(tensor)
            found.add(scope.position(node, output, index))
    return found


def read_before(context: Context, scope: Scope, node: NodeDef) -> list[Any]:
    """The origins of the variables of a loop that are needed."""
    origins = scope.origins(node)
    return [origins[k] for k in live_variables(context, scope, node)]


def readers_of(context: Context, results: Sequence[Any]) -> dict[int, list[Any]]:
    """The nodes of a body that read each variable, and each node, by its identity."""
    found: dict[int, list[Any]] = {}
    seen: set[tuple[int, str]] = set()
    waiting = [origin for origin in results if isinstance(origin, Origin)]
    while waiting:
        origin = waiting.pop()
        key = (id(origin.scope), origin.node)
        if key in seen:
            continue
        seen.add(key)
        node = origin.scope.nodes[origin.node]
        try:
            read = context.read_by(origin.scope, node)
        except Unsupported:  # which is recorded when the node is converted
            continue
        for before in read:
            if isinstance(before, Origin):
                found.setdefault(id(before.scope.nodes[before.node]), []).append(node)
                waiting.append(before)
            else:
                found.setdefault(id(before), []).append(node)
    return found
