"""The picture of a program of torch."""

from __future__ import annotations

from typing import Any

from onnx_sparse.converters.torch.source import Source
from onnx_sparse.pictures import Picture, PictureNode


def draw(source: Source, picture: Picture) -> None:
    """Add the nodes of a program."""
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
