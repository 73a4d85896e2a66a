"""Effects that a value depends on: a variable or table that is changed before it is read has no value in the file.

Control inputs order effects. They are looked at for reads of variables and tables only, and only where a function
changes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.reading.scopes import CALLS, Library, Origin, Scope

#: Operators that change the resource that is their first input.
_CHANGES = frozenset(
    {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "Assign", "AssignAdd", "AssignSub"}
    | {"LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableImportV2", "InitializeTableV2"}
)
_CHANGING_PREFIXES = ("ResourceScatter", "ResourceApply", "ResourceSparseApply", "ResourceStridedSliceAssign")
_CHANGING_REFERENCES = ("ScatterAdd", "ScatterSub", "ScatterUpdate", "ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate")


def refuse_after_change(scope: Scope, node: Any, handle: str) -> None:
    """Refuse to read a variable or table that has been changed before.

    Args:
        scope: Where it is read.
        node: What reads it.
        handle: The input of the node that is the variable or table.

    Raises:
        Unsupported: It has been changed.
    """
    origin = scope.origin(handle)
    place = scope
    while node is not None:
        if _changes_something(place):
            for changed in _changed_before(place, node):
                if changed is None or changed == origin:
                    raise Unsupported("it reads what the model changes; a state that changes is not converted")
        node = place.site
        place = place.caller or place


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
    return op in _CHANGES or op in _CHANGING_REFERENCES or op.startswith(_CHANGING_PREFIXES)


def _called(node: Any) -> Iterator[str]:
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


def _changed_before(scope: Scope, node: Any) -> Iterator[Any]:
    """The origins of the resources that are changed before a node runs; None for those that are not known."""
    waiting = [name[1:] for name in node.input if name.startswith("^")]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        before = scope.nodes.get(name)
        if name in seen or before is None:
            continue
        seen.add(name)
        waiting += [tensor.removeprefix("^").partition(":")[0] for tensor in before.input]
        if _is_change(before.op):
            yield _origin(scope, before)
        elif before.op in CALLS and changes(scope.library, before.attr["f"].func.name):
            for inner, changing in scope.call(before).every():
                if _is_change(changing.op):
                    yield _origin(inner, changing)
                elif changing.op not in CALLS and any(changes(scope.library, name) for name in _called(changing)):
                    yield None
        elif before.op not in CALLS and any(changes(scope.library, called) for called in _called(before)):
            yield None


def _origin(scope: Scope, node: Any) -> Origin | None:
    data = [name for name in node.input if not name.startswith("^")]
    found = scope.origin(data[0]) if data else None
    return found if isinstance(found, Origin) else None
