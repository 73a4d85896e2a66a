"""Sizes in an IR that are not those at run time.

The first versions of NonMaxSuppression declare as many boxes as there can be, and OpenVINO makes as many as there are.
What is computed from these has other sizes than declared, too.
"""

from __future__ import annotations

import re
from dataclasses import replace

from onnx_sparse.converters.openvino.ir import Layer, Network

_OLD = ("opset1", "opset2", "opset3", "opset4")


def without_untrue_sizes(network: Network, *, is_whole: bool = False) -> Network:
    """The network without the declared sizes of what depends on such a layer; the ranks stay.

    Args:
        network: The network.
        is_whole: Whether the sizes of all layers but constants go: the network is a body that may read such sizes.
    """
    if not is_whole and not any(map(_declares_too_much, network.layers.values())):
        return network
    untrue: set[int] = set()
    changed: dict[int, Layer] = {}
    for layer in network.ordered():
        read = {network.sources[layer.id, port.id][0] for port in layer.inputs}
        is_untrue = not untrue.isdisjoint(read) or _declares_too_much(layer)
        if is_untrue or (is_whole and layer.type not in ("Const", "Constant")):
            untrue.add(layer.id)
            changed[layer.id] = _unsized(layer)
    return replace(network, layers={number: changed.get(number, layer) for number, layer in network.layers.items()})


def _declares_too_much(layer: Layer) -> bool:
    is_old = layer.type == "NonMaxSuppression" and layer.version in _OLD
    return is_old or any(_declares_too_much(inner) for body in layer.bodies.values() for inner in body.layers.values())


def _unsized(layer: Layer) -> Layer:
    outputs = tuple(port if port.dims is None else replace(port, dims=(-1,) * len(port.dims)) for port in layer.outputs)
    data = dict(layer.data)
    if layer.type == "Parameter" and "shape" in data:
        data["shape"] = re.sub(r"[0-9]+", "?", data["shape"])
    bodies = {name: without_untrue_sizes(body, is_whole=True) for name, body in layer.bodies.items()}
    return replace(layer, data=data, outputs=outputs, bodies=bodies)
