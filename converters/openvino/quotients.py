"""Quotients of signed integers, whose rounding an IR does not tell reliably: frontends set m_pythondiv for all."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_sparse.converters.openvino.ir import Layer, Network

_SIGNED = ("i8", "i16", "i32", "i64")
#: Layers whose results are not negative, whatever they read.
_NOT_NEGATIVE = ("ShapeOf", "NonZero", "Const", "Constant")


def signed_quotients(network: Network) -> Iterator[Layer]:
    """The Divide layers that round down and may read negative integers, which sizes are not; also those in bodies."""
    for layer in network.layers.values():
        for body in layer.bodies.values():
            yield from signed_quotients(body)
        rounds_down = layer.type == "Divide" and layer.data.get("m_pythondiv", "true").lower() in ("true", "1")
        if rounds_down and layer.outputs and layer.outputs[0].precision in _SIGNED and _may_be_negative(network, layer):
            yield layer


def _may_be_negative(network: Network, layer: Layer) -> bool:
    """Whether a quotient is made of anything but sizes and constants."""
    waiting, seen = [layer.id], {layer.id}
    while waiting:
        reader = network.layers[waiting.pop()]
        for port in reader.inputs:
            source = network.sources[reader.id, port.id][0]
            kind = network.layers[source].type
            if kind in _NOT_NEGATIVE or source in seen:
                continue
            if not network.layers[source].inputs:
                return True
            seen.add(source)
            waiting.append(source)
    return False
