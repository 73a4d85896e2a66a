"""Older IRs, in the form that today's have: spellings of layers, and the ports of version 10."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from onnx_sparse.converters.openvino.handlers.registry import HANDLERS, NEVER
from onnx_sparse.converters.openvino.ir import Layer, Network, Port

#: Layers of version `experimental` or `extension`, which OpenVINO reads as those of opset6.
_EXPERIMENTAL = ("GRUCell", "RNNCell", "Proposal")

#: Operators whose second result are indices.
_WITH_INDICES = ("AdaptiveMaxPool", "MaxPool", "TopK")

#: The element types that OpenVINO gives the outputs of a model of version 10.
_OUTPUT_TYPES = {
    **dict.fromkeys(("f64", "bf16", "boolean", "i16", "i8", "u16", "u8"), "f32"),
    **dict.fromkeys(("i64", "u64", "u32"), "i32"),
}

#: Attributes that are element types of results.
_TYPES = ("destination_type", "element_type", "output_element_type", "output_type")


def in_todays_form(network: Network) -> Network:
    """The network with layers as their specifications spell them, and, of version 10, with OpenVINO's ports."""
    known = _respelled(network)
    return _with_old_ports(known) if network.version == "10" else known


def _respelled(network: Network) -> Network:
    """The layers under the names of their operators: OpenVINO compares these without case."""
    return _changed(
        network, lambda layer: _with_indices(replace(layer, type=_spelling(layer.type), version=_version(layer)))
    )


def _with_indices(layer: Layer) -> Layer:
    """A layer whose indices have the type that its attribute says; Model Optimizer wrote that of the values on both."""
    kind = layer.data.get("index_element_type")
    if layer.type not in _WITH_INDICES or len(layer.outputs) != 2 or kind is None:
        return layer
    values, indices = layer.outputs
    return replace(layer, outputs=(values, replace(indices, precision=kind)))


def _changed(network: Network, change: Callable[[Layer], Layer]) -> Network:
    """The network with each layer changed, also those in bodies."""
    layers = {
        number: replace(change(layer), bodies={name: _changed(body, change) for name, body in layer.bodies.items()})
        for number, layer in network.layers.items()
    }
    return replace(network, layers=layers)


@cache
def _spellings() -> Mapping[str, str]:
    kinds = [name.rpartition("-")[0] for name in HANDLERS]
    return {"constant": "Const", **{kind.lower(): kind for kind in (*kinds, *NEVER, "Parameter", "Result")}}


def _spelling(kind: str) -> str:
    return _spellings().get(kind.lower(), kind)


def _version(layer: Layer) -> str:
    kind = _spelling(layer.type)
    is_read = kind in _EXPERIMENTAL or kind.startswith("ExperimentalDetectron")
    return "opset6" if is_read and layer.version in ("experimental", "extension") else layer.version


def _with_old_ports(network: Network) -> Network:
    """Inputs and outputs with the types and names that files of version 10 have in OpenVINO.

    It computes float16 as float32, from weights of float16; so do these layers.
    """
    wide = _changed(network, _widened)
    layers, sources = dict(wide.layers), dict(wide.sources)
    for layer in wide.layers.values():
        if layer.type != "Result" or not layer.inputs:
            continue
        place = layer.id, layer.inputs[0].id
        maker, port = wide.layers[sources[place][0]], wide.port(*sources[place])
        number = f".{maker.outputs.index(port)}" if len(maker.outputs) > 1 else ""
        name = next(iter(port.names), f"{maker.name}{number}").replace(",", "\\,")
        layers[layer.id] = replace(layer, data={"output_names": name, **layer.data})
        if port.precision in _OUTPUT_TYPES:
            wanted, added = _OUTPUT_TYPES[port.precision], max(layers) + 1
            ports = Port(0, port.precision, port.dims), Port(1, wanted, port.dims)
            data = {"destination_type": wanted}
            layers[added] = Layer(added, f"{maker.name}/{wanted}", "Convert", "opset1", data, ports[:1], ports[1:])
            sources[added, 0], sources[place] = sources[place], (added, 1)
    return replace(wide, layers=layers, sources=sources)


def _widened(layer: Layer) -> Layer:
    """A layer that computes in float32 in place of float16; the bytes of a constant stay as they are."""

    def wide(ports: tuple[Port, ...]) -> tuple[Port, ...]:
        return tuple(replace(port, precision="f32") if port.precision == "f16" else port for port in ports)

    stays = layer.type == "Const"
    data = {
        key: "f32" if value == "f16" and key in _TYPES and not stays else value for key, value in layer.data.items()
    }
    return replace(layer, data=data, inputs=wide(layer.inputs), outputs=wide(layer.outputs))
