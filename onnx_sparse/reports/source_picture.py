"""The picture of what a model was converted from, in the operators of its source."""

from __future__ import annotations

from collections import deque
from typing import Any

from onnx_sparse.reports.pictures import Picture, PictureNode

#: No more nodes of a source are drawn: a page would take too long.
MOST_NODES = 5_000
#: TensorFlow's nodes that compute nothing: what they hold becomes an initializer.
_CONSTANTS = ("Const", "ReadVariableOp", "VarHandleOp", "VariableV2")


def source_picture(origin: str, source: Any, title: str) -> Picture | None:
    """The picture of a source; None for one that cannot be drawn.

    Args:
        origin: What it is: `tensorflow`, `torch`, `openvino`, `onnx`.
        source: What the converter's `load` returned; the path of an IR; a ModelProto.
        title: What it is a picture of.
    """
    drawers = {"tensorflow": _tensorflow, "torch": _torch, "openvino": _openvino, "onnx": _onnx}
    drawer = drawers.get(origin)
    picture = Picture(title)
    if drawer is None:
        return None
    drawer(source, picture)
    return picture if picture.nodes and len(picture.nodes) <= MOST_NODES else None


def _tensorflow(source: Any, picture: Picture) -> None:
    """The nodes that the outputs need, with functions inlined: they are found from the outputs."""
    from onnx_sparse.converters.errors import Unsupported

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


def _torch(source: Any, picture: Picture) -> None:
    parameters = {spec.arg.name for spec in source.program.graph_signature.input_specs if "USER" not in spec.kind.name}
    places: dict[Any, int] = {}
    for node in source.program.graph.nodes:
        reads = [places[held] for held in node.all_input_nodes if held in places]
        if node.op == "output":
            for number, made in enumerate(reads):
                picture.add(PictureNode(f"output {number}", node.name, "output"), [made])
            continue
        stack = node.meta.get("nn_module_stack") or {}
        scope = tuple(str(list(stack.values())[-1][0]).split(".")) if stack else ()
        kind = {"placeholder": "constant" if node.name in parameters else "input", "get_attr": "constant"}
        value = node.meta.get("val")
        operator = getattr(node.target, "__name__", "") if callable(node.target) and "." not in str(node.target) else ""
        operator = operator or str(node.target)
        details = [("operator", operator)]
        if hasattr(value, "shape"):
            sizes = ", ".join(map(str, value.shape))
            details.append(("makes", f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"))
        label = node.name if node.op == "placeholder" else operator
        drawn = PictureNode(label, node.name, kind.get(node.op, "other"), tuple(filter(None, scope)), tuple(details))
        places[node] = picture.add(drawn, reads)


def _openvino(source: Any, picture: Picture) -> None:
    from pathlib import Path

    from onnx_sparse.converters.openvino.ir import read_ir

    network = read_ir(Path(source))
    kinds = {"Parameter": "input", "Result": "output", "Const": "constant", "Constant": "constant"}
    places: dict[int, int] = {}
    for layer in network.ordered():
        reads = [
            network.sources[layer.id, port.id][0] for port in layer.inputs if (layer.id, port.id) in network.sources
        ]
        kind = kinds.get(layer.type, "other")
        dims = [f"{port.precision}[{', '.join(map(str, port.dims or ()))}]" for port in layer.outputs]
        details = [("operator", f"{layer.type}, {layer.version}"), *(("makes", text) for text in dims)]
        details += [(f"attribute {name}", value) for name, value in layer.data.items()]
        label = layer.name if kind in ("input", "output") else layer.type
        scope = () if kind in ("input", "output") else tuple(filter(None, layer.name.split("/")[:-1]))
        drawn = PictureNode(label, layer.name, kind, scope, tuple(details))
        places[layer.id] = picture.add(drawn, [places[held] for held in reads])


def _onnx(source: Any, picture: Picture) -> None:
    from onnx_sparse.reports.model_picture import model_picture

    drawn = model_picture(source, picture.title)
    picture.nodes, picture.edges = drawn.nodes, drawn.edges
