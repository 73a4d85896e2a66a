"""The picture of an IR."""

from __future__ import annotations

from typing import Any

from onnx_sparse.converters.openvino.in_memory import file_of
from onnx_sparse.converters.openvino.ir import read_ir
from onnx_sparse.pictures import Picture, PictureNode


def draw(source: Any, picture: Picture) -> None:
    """Add the layers of an IR."""
    with file_of(source) as path:
        network = read_ir(path)
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
