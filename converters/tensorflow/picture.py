"""The picture of a TensorFlow model: the nodes that its outputs need."""

from __future__ import annotations

from collections import deque
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.source import Source
from onnx_sparse.pictures import MOST_NODES, Picture, PictureNode

#: The nodes that compute nothing: what they hold becomes an initializer.
_CONSTANTS = ("Const", "ReadVariableOp", "VarHandleOp", "VariableV2")


def draw(source: Source, picture: Picture) -> None:
    """Add the nodes that the outputs need, with functions inlined: they are found from the outputs."""
    graph = source.model.fresh().graph
    fed = {port.tensor.partition(":")[0]: port.name for port in source.inputs}

    def origin_of(scope: Any, tensor: str) -> Any:
        try:
            found = scope.origin(tensor)
        except Unsupported:
            return None
        return found if hasattr(found, "node") else None  # else an argument that stands for itself

    found: dict[tuple[int, str], Any] = {}
    reads: dict[tuple[int, str], list[tuple[int, str]]] = {}
    results = [(port.name, origin_of(graph, port.tensor)) for port in source.outputs]
    waiting = deque(origin for _, origin in results if origin is not None)
    while waiting and len(found) <= MOST_NODES:
        scope, name, _ = waiting.popleft()
        key = (id(scope), name)
        if key in found or name not in scope.nodes:
            continue
        found[key] = (scope, scope.nodes[name])
        is_input = scope is graph and name in fed
        names = [] if is_input else [held for held in scope.nodes[name].input if not held.startswith("^")]
        origins = [origin for origin in (origin_of(scope, held) for held in names) if origin is not None]
        reads[key] = [(id(origin.scope), origin.node) for origin in origins]
        waiting.extend(origins)
    places: dict[tuple[int, str], int] = {}
    for key in _ordered(reads):
        scope, node = found[key]
        whole = "/".join(filter(None, (scope.name.strip("/"), node.name)))
        parts = tuple(part for part in whole.split("/") if part)
        kind = "constant" if node.op in _CONSTANTS else "other"
        if node.op == "ReadVariableOp" and (read := [places[held] for held in reads[key] if held in places]):
            whole = picture.nodes[read[0]].name  # the variable's
        label = node.op
        if scope is graph and node.name in fed:
            kind, label, parts = "input", fed[node.name], parts[-1:]
        details = (("operator", node.op), ("name", whole))
        places[key] = picture.add(
            PictureNode(label, whole, kind, parts[:-1], details),
            [places[held] for held in reads[key] if held in places],
        )
    for name, origin in results:
        made = None if origin is None else places.get((id(origin.scope), origin.node))
        picture.add(PictureNode(name, name, "output"), () if made is None else [made])


def _ordered(reads: dict[tuple[int, str], list[tuple[int, str]]]) -> list[tuple[int, str]]:
    """The nodes, each after those that it reads, but for what reads itself over a loop."""
    order: list[tuple[int, str]] = []
    state: dict[tuple[int, str], bool] = {}  # whether all that it reads is placed
    for first in reads:
        stack = [first]
        while stack:
            key = stack[-1]
            if key not in state:
                state[key] = False
                stack += [held for held in reads.get(key, ()) if held in reads and held not in state]
                continue
            stack.pop()
            if not state[key]:
                state[key] = True
                order.append(key)
    return order
