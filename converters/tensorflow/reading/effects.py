"""Effects that a value depends on: a variable that is changed before it is read has another value than in the file.

Control inputs order effects. They are looked at where a function changes a variable or table only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Library, Origin, Scope

#: Operators that change the resource that is their first input.
_CHANGES = frozenset(
    {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "Assign", "AssignAdd", "AssignSub"}
    | {"LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableImportV2", "InitializeTableV2"}
)
_CHANGING_TABLES = re.compile(r"TFRA>\w+Table(Insert|Accum|Remove|Clear|Import|LoadFromFileSystem)")
_CHANGING_PREFIXES = ("ResourceScatter", "ResourceApply", "ResourceSparseApply", "ResourceStridedSliceAssign")
_CHANGING_REFERENCES = ("ScatterAdd", "ScatterSub", "ScatterUpdate", "ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate")


@dataclass(frozen=True)
class Change:
    """A node that changes a variable or table.

    Attributes:
        scope: The scope of the node.
        node: The node.
    """

    scope: Scope
    node: NodeDef

    def __str__(self) -> str:
        return f"{self.scope.name}{self.node.name} ({self.node.op})"


def last_change(scope: Scope, node: NodeDef, resource: Origin) -> Change | None:
    """The last change of a variable or table before a node runs; None if it is as in the file.

    Args:
        scope: The scope of the node.
        node: The node.
        resource: The variable or table.

    Raises:
        Unsupported: It is not known whether it is changed, or in which order.
    """
    place = scope
    reader: NodeDef | None = node
    while reader is not None:
        if _changes_something(place) and (found := _last(place, ancestors(place, [reader]), resource)) is not None:
            return found
        reader = place.site
        place = place.caller or place
    return None


def final_change(graph: Scope, run: Iterable[str], resource: Origin) -> Change | None:
    """The last change of a variable or table in a call of a model; see `last_change`.

    Args:
        graph: Its graph.
        run: The nodes that are run, and with them those before.
        resource: The variable or table.
    """
    if not _changes_something(graph):
        return None
    names = {name for name in run if name in graph.nodes}
    names |= {before for name in names for before in ancestors(graph, [graph.nodes[name]])}
    return _last(graph, names, resource)


def changes(library: Library, name: str) -> bool:
    """Whether a function, or one that it calls, changes a resource."""
    waiting, seen = [name], {name}
    while waiting:
        function = library.functions.get(waiting.pop())
        for node in function.node_def if function is not None else ():
            if _is_change(node.op):
                return True
            for called in _called(node):
                if called not in seen:
                    seen.add(called)
                    waiting.append(called)
    return False


def _is_change(op: str) -> bool:
    return (
        op in _CHANGES
        or op in _CHANGING_REFERENCES
        or op.startswith(_CHANGING_PREFIXES)
        or bool(_CHANGING_TABLES.fullmatch(op))
    )


def _called(node: NodeDef) -> Iterator[str]:
    for attribute in node.attr.values():
        kind = attribute.WhichOneof("value")
        if kind == "func":
            yield attribute.func.name
        elif kind == "list":
            yield from (function.name for function in attribute.list.func)


def _changes_something(scope: Scope) -> bool:
    if scope.changes is None:
        scope.changes = any(
            _is_change(node.op) or any(changes(scope.library, name) for name in _called(node))
            for node in scope.nodes.values()
        )
    return scope.changes


def ancestors(scope: Scope, nodes: Iterable[NodeDef]) -> set[str]:
    """The nodes that run before some nodes."""
    seen: set[str] = set()
    waiting = [*nodes]
    while waiting:
        for tensor in waiting.pop().input:
            name = tensor.removeprefix("^").partition(":")[0]
            if name not in seen and name in scope.nodes:
                seen.add(name)
                waiting.append(scope.nodes[name])
    return seen


def _last(scope: Scope, names: Iterable[str], resource: Origin) -> Change | None:
    """The last of some nodes that changes a resource, or of the nodes in a function that it calls."""
    found: dict[str, Change] = {}
    for name in names:
        node = scope.nodes[name]
        if _is_change(node.op):
            changed = _origin(scope, node)
            if changed is None:
                raise Unsupported(f"it is not known what {scope.name}{name} ({node.op}) changes")
            if changed == resource:
                found[name] = Change(scope, node)
        elif not any(changes(scope.library, called) for called in _called(node)):
            continue
        elif scope.calls(node):
            inner = scope.call(node)
            if (change := _last(inner, inner.nodes, resource)) is not None:
                found[name] = change
        elif resource in scope.origins(node):
            raise Unsupported(f"{scope.name}{name} ({node.op}) changes it in a branch or loop, which is not converted")
    for name, change in found.items():
        if len(found) == 1 or found.keys() - {name} <= ancestors(scope, [scope.nodes[name]]):
            return change
    if found:
        raise Unsupported(f"{', '.join(map(str, found.values()))} change it in no order")
    return None


def _origin(scope: Scope, node: NodeDef) -> Origin | None:
    data = [name for name in node.input if not name.startswith("^")]
    found = scope.origin(data[0]) if data else None
    return found if isinstance(found, Origin) else None
