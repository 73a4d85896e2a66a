"""The inputs and outputs of a model: their types, shapes and names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.element_types import CARRIED, ONNX_TYPES
from onnx_sparse.converters.openvino.ir import Layer, Network, Port
from onnx_sparse.converters.openvino.ir.reader import split_names
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.models.graphs import Names

#: OpenVINO's names of an element type that is only known at run time.
_UNTYPED = ("dynamic", "undefined")


def parameter(layer: Layer, name: str) -> Tensor:
    """The tensor of a Parameter. Only it tells a scalar (`shape=""`) from an unknown rank (`shape="..."`)."""
    precision = layer.outputs[0].precision if layer.outputs else ""
    kind = layer.data.get("element_type", precision)
    if kind in _UNTYPED:
        raise Unsupported(
            f"its element type is not known; give it one in OpenVINO (model.input({name!r}).get_node()"
            ".set_element_type(ov.Type.f32); model.validate_nodes_and_infer_types()) and save the IR again"
        )
    if kind in CARRIED:
        raise Unsupported(f"inputs of {kind} cannot be fed in ONNX Runtime; only constants may have that type")
    dtype = element_type(kind, "element_type of an input")
    text = layer.data.get("shape")
    if text is not None:
        return Tensor(name, dtype, parse_shape(text))
    return Tensor(name, dtype, port_shape(layer.outputs[0]) if layer.outputs else None)


def parse_shape(text: str) -> Shape | None:
    """The shape in an attribute: `2..6,3..,?,4`; `...` is an unknown rank, and a dimension with bounds is unknown."""
    text = text.strip().strip("[]")
    if text == "...":
        return None
    dims: list[int | None] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if re.fullmatch(r"[0-9]{1,18}", part):
            dims.append(int(part))
        elif part in ("?", "-1") or re.fullmatch(r"[0-9]*\.\.[0-9]*", part):
            dims.append(None)
        else:
            raise Unsupported(f"shape {text[:80]!r} is not a valid shape")
    return tuple(dims)


def port_shape(port: Port) -> Shape | None:
    """The shape of a port. Without dimensions it is unknown: the port may be a scalar or of unknown rank."""
    return None if port.dims is None else tuple(None if d < 0 else d for d in port.dims)


@dataclass(frozen=True)
class PortNames:
    """The names of a model's inputs and outputs by the id of their Parameter or Result."""

    inputs: dict[int, str]
    outputs: dict[int, str]


def port_names(network: Network, names: Names) -> PortNames:
    """Name the inputs and outputs as OpenVINO does: by the first of a tensor's names, else by the layer's name."""
    inputs: dict[int, str] = {}
    outputs: dict[int, str] = {}
    for layer in network.layers.values():
        if layer.type == "Parameter":
            tensor_names = layer.outputs[0].names if layer.outputs else ()
            inputs[layer.id] = names.fresh(next(iter(tensor_names), layer.name))
    for layer in network.layers.values():
        if layer.type == "Result" and layer.inputs:
            source = network.sources[layer.id, layer.inputs[0].id]
            candidates = (
                *split_names(layer.data.get("output_names", "")),
                *network.port(*source).names,
                network.layers[source[0]].name,
            )
            outputs[layer.id] = names.fresh(candidates[0])
    return PortNames(inputs, outputs)


def element_type(text: str, what: str) -> TensorProto.DataType:
    """The ONNX type of an element type that a layer makes.

    Raises:
        Unsupported: The type is not known, or ONNX does not have it.
    """
    if text not in ONNX_TYPES or text in CARRIED:
        raise Unsupported(f"{what} = {text[:20]!r} is not supported")
    return ONNX_TYPES[text]
