"""The values of variables: which of a checkpoint's tensors each of a graph's variables has.

Two records say it, and neither knows all: what restores the variables, in the graph or in the function that the saver
names; and the objects of a TensorFlow 2 model, of which functions say which they capture and variables have names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.reading.checkpoint import Checkpoint
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import CALLS, Origin, Scope
from onnx_sparse.converters.tensorflow.reading.tensor_values import array_of

#: The nodes that are variables.
VARIABLES = frozenset({"VarHandleOp", "VariableV2", "Variable"})
#: The names of variables that nobody has named, and what the keys of their values end with.
_UNNAMED = re.compile(r"Variable(_\d+)?")
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_ASSIGNMENTS = frozenset({"AssignVariableOp", "Assign"})
#: A part of a variable that is partitioned.
_PART = re.compile(r"(.+)/part_(\d+)")


def _names(node: NodeDef) -> list[str]:
    """The shared name of a variable, if it has one, and that of its node."""
    shared = node.attr["shared_name"].s.decode("utf-8", "replace") if "shared_name" in node.attr else ""
    return [*filter(None, (shared, str(node.name)))]


class Variables:
    """The values of the variables of a graph.

    Args:
        graph: The graph.
        checkpoint: Where they are; None if the model has none.
        objects: The SavedObjectGraph of a TensorFlow 2 model.
        values: The values that are in memory, by node.
    """

    def __init__(
        self,
        graph: Scope,
        checkpoint: Checkpoint | None,
        objects: Any = None,
        values: Mapping[str, Array] | None = None,
    ) -> None:
        self._graph = graph
        self._checkpoint = checkpoint
        self._objects = objects
        self._values = values or {}
        self._keys: dict[str, tuple[str, str]] | None = None
        self._by_name: dict[str, str] = {}

    def of(self, graph: Scope) -> Variables:
        """The variables of another graph with the same nodes."""
        return Variables(graph, self._checkpoint, self._objects, self._values)

    def value(self, node: NodeDef) -> Array:
        """The value of the variable that a node is.

        Raises:
            Unsupported: It is not known.
        """
        if node.name in self._values:
            return self._values[node.name]
        if self._checkpoint is None:
            raise Unsupported(f"the value of the variable {node.name} is not in the model; freeze the graph first")
        keys = self._known_keys(self._checkpoint)
        if node.name in keys:
            return self._checkpoint.read(*keys[node.name])
        for name in _names(node):
            for key in (self._by_name.get(name), name):
                if key is not None and key in self._checkpoint:
                    return self._checkpoint.read(key)
        raise Unsupported(f"the checkpoint has no value for the variable {_names(node)[0]}")

    def keys_and_rows(self, node: NodeDef) -> list[tuple[Array, Array]]:
        """The keys and rows that the checkpoint has under the name of a table; none if it has none.

        A partitioned EmbeddingVariable of DeepRec has `NAME/part_0`, `NAME/part_1` and so on. If the graph has another
        number of parts, its partition of keys is another one, and each part gets all keys.

        Raises:
            Unsupported: They are damaged, or parts are missing.
        """
        checkpoint = self._checkpoint
        for name in _names(node) if checkpoint is not None else ():
            assert checkpoint is not None
            part = _PART.fullmatch(name)
            variable = part[1] if part else name
            saved = checkpoint.matches(re.compile(rf"{re.escape(variable)}/part_(\d+)-keys".encode()))
            numbers = sorted(int(found[1]) for found in saved)
            if numbers != [*range(len(numbers))]:
                raise Unsupported(f"the checkpoint has the parts {numbers} of {variable}, which are not all")
            is_as_saved = part is None or self._parts(variable) == len(numbers)
            held = [name] if is_as_saved and f"{name}-keys" in checkpoint else [f"{variable}/part_{k}" for k in numbers]
            if held:
                return [(checkpoint.read(f"{each}-keys"), checkpoint.read(f"{each}-values")) for each in held]
        return []

    def _parts(self, variable: str) -> int:
        """How many parts of a variable the graph has."""
        handles = (node for _, node in self._graph.every() if node.op == "KvVarHandleOp")
        parts = (_PART.fullmatch(name) for node in handles for name in _names(node)[:1])
        return len({part[2] for part in parts if part and part[1] == variable})

    def name(self, node: NodeDef) -> str:
        """The name of a variable: the one that it was given, or else its place among the objects of the model."""
        name = _names(node)[0]
        if self._checkpoint is None or not _UNNAMED.fullmatch(name):
            return name
        key = self._known_keys(self._checkpoint).get(node.name, (self._by_name.get(name, name), ""))[0]
        return key.removesuffix(_VALUE) or name

    def restored(self, origin: Origin) -> Array:
        """The tensor of the checkpoint that an output of RestoreV2 is.

        Raises:
            Unsupported: It is not known.
        """
        _, names, parts = origin.scope.origins(origin.scope.nodes[origin.node])
        key, part = (_text(each, origin.output) for each in (names, parts))
        if self._checkpoint is None or key is None:
            raise Unsupported("it is restored from a checkpoint that is not there")
        return self._checkpoint.read(key, part or "")

    def _known_keys(self, checkpoint: Checkpoint) -> dict[str, tuple[str, str]]:
        """The key and part of the value of each variable, by node."""
        if self._keys is None:
            self._keys = self._found(checkpoint)
        return self._keys

    def _found(self, checkpoint: Checkpoint) -> dict[str, tuple[str, str]]:
        found = {name: (key, part) for name, key, part in self._restored()}
        if self._objects is not None:
            keys = checkpoint.object_keys()
            found |= {name: (key, "") for name, key in self._captured(keys)}
            names = Counter(node.variable.name for node in self._objects.nodes if node.HasField("variable"))
            self._by_name = {
                node.variable.name: keys[number]
                for number, node in enumerate(self._objects.nodes)
                if node.HasField("variable") and names[node.variable.name] == 1 and number in keys
            }
        return found

    def _restored(self) -> Iterator[tuple[str, str, str]]:
        """The variables that the graph or a function of it restores: node, key and part."""
        for scope, node in self._graph.every():
            if node.op not in _ASSIGNMENTS:
                continue
            try:
                target, value = scope.origins(node)[:2]
                is_restored = isinstance(target, Origin) and isinstance(value, Origin)
                if not is_restored or value.scope.nodes[value.node].op != "RestoreV2":
                    continue
                _, names, parts = value.scope.origins(value.scope.nodes[value.node])
                key, part = (_text(origin, value.output) for origin in (names, parts))
            except (Unsupported, ValueError):
                continue
            if key is not None and target.scope is self._graph:
                yield target.node, key, part or ""

    def _captured(self, keys: dict[int, str]) -> Iterator[tuple[str, str]]:
        """The variables that functions capture: node and key."""
        for node in self._graph.nodes.values():
            name = node.attr["f"].func.name if node.op in CALLS else ""
            if name not in self._objects.concrete_functions:
                continue
            bound = self._objects.concrete_functions[name].bound_inputs
            given = [tensor for tensor in node.input if not tensor.startswith("^")]
            for tensor, number in zip(given[len(given) - len(bound) :], bound, strict=False):
                if number in keys:
                    yield tensor.partition(":")[0], keys[number]


def _text(origin: Any, position: int) -> str | None:
    """A string of a constant; None if it is none."""
    if not isinstance(origin, Origin):
        return None
    node = origin.scope.nodes[origin.node]
    if node.op != "Const":
        return None
    texts = array_of(node.attr["value"].tensor).reshape(-1)
    text = texts[position] if position < len(texts) else None
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else None
