"""Reads the .xml of an IR into a Network and checks that it is valid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.openvino.ir.network import BodyMap, Edge, Layer, Network, Port
from onnx_sparse.converters.openvino.ir.safe_xml import Element, parse_xml

#: IRs before version 10 have layers of another kind.
_VERSIONS = ("10", "11")
_BODIES = ("body", "then_body", "else_body")
_MAPS = ("port_map", "back_edges", "then_port_map", "else_port_map")
#: Element types whose names on ports differ by more than their case from those in the attributes of layers.
_PRECISIONS = {"fp64": "f64", "fp32": "f32", "fp16": "f16", "bool": "boolean", "bin": "u1"}


def read_ir(path: Path) -> Network:
    """Read an IR's .xml.

    Raises:
        ConversionError: It is not an IR of version 10 or 11, or its layers, ports and edges do not fit together.
    """
    root = parse_xml(path)
    if root.tag != "net":
        raise ConversionError(f"{path} is not an OpenVINO IR: its root element is <{root.tag[:40]}>, not <net>")
    version = root.attributes.get("version", "")
    if version not in _VERSIONS:
        raise ConversionError(f"{path} is an IR of version {version[:20]!r}; versions 10 and 11 are read")
    try:
        return _network(root, root.attributes.get("name", "model"))
    except ConversionError as error:
        raise ConversionError(f"{path}: {error}") from error


def _network(element: Element, name: str) -> Network:
    layers: dict[int, Layer] = {}
    for found in element.all("layers", "layer"):
        layer = _layer(found)
        if layer.id in layers:
            raise ConversionError(f"two layers have the id {layer.id}")
        layers[layer.id] = layer
    if not layers:
        raise ConversionError(f"{name!r} has no layers")
    sources: dict[tuple[int, int], tuple[int, int]] = {}
    for found in element.all("edges", "edge"):
        edge = Edge(*(_integer(found, key) for key in ("from-layer", "from-port", "to-layer", "to-port")))
        _check_edge(edge, layers)
        if (edge.to_layer, edge.to_port) in sources:
            raise ConversionError(f"two edges lead to input {edge.to_port} of {layers[edge.to_layer]}")
        sources[edge.to_layer, edge.to_port] = (edge.from_layer, edge.from_port)
    for layer in layers.values():
        for port in layer.inputs:
            if (layer.id, port.id) not in sources:
                raise ConversionError(f"no edge leads to input {port.id} of {layer}")
    return Network(name, layers, sources)


def _check_edge(edge: Edge, layers: Mapping[int, Layer]) -> None:
    for number in (edge.from_layer, edge.to_layer):
        if number not in layers:
            raise ConversionError(f"an edge names layer {number}, which is not there")
    if all(port.id != edge.from_port for port in layers[edge.from_layer].outputs):
        raise ConversionError(
            f"an edge names output {edge.from_port} of {layers[edge.from_layer]}, which does not exist"
        )
    if all(port.id != edge.to_port for port in layers[edge.to_layer].inputs):
        raise ConversionError(f"an edge names input {edge.to_port} of {layers[edge.to_layer]}, which does not exist")


def _layer(element: Element) -> Layer:
    number = _integer(element, "id")
    name = element.attributes.get("name") or f"layer_{number}"
    data = element.child("data")
    inputs = tuple(map(_port, element.all("input", "port")))
    outputs = tuple(map(_port, element.all("output", "port")))
    numbers = [port.id for port in (*inputs, *outputs)]
    if len(set(numbers)) < len(numbers):
        raise ConversionError(f"two ports of layer {number} {name!r} have the same id")
    return Layer(
        number,
        name,
        _text(element, "type"),
        _text(element, "version"),
        data.attributes if data else {},
        inputs,
        outputs,
        {tag: _network(body, f"{name}/{tag}") for tag in _BODIES if (body := element.child(tag)) is not None},
        {
            tag: tuple(BodyMap(e.tag, e.attributes) for e in element.all(tag)[0].children)
            for tag in _MAPS
            if element.child(tag) is not None
        },
    )


def _port(element: Element) -> Port:
    dims = tuple(_number("dim", dim.text.strip()) for dim in element.all("dim"))
    precision = element.attributes.get("precision", "").lower()
    return Port(
        _integer(element, "id"),
        _PRECISIONS.get(precision, precision),
        dims or None,
        split_names(element.attributes.get("names", "")),
    )


def split_names(text: str) -> tuple[str, ...]:
    """The names in a list of names; a comma inside a name is written `\\,`."""
    return tuple(name.replace("\\,", ",") for name in re.split(r"(?<!\\),", text) if name)


def _text(element: Element, key: str) -> str:
    value = element.attributes.get(key)
    if value is None:
        raise ConversionError(f"<{element.tag}> has no {key}")
    return value


def _integer(element: Element, key: str) -> int:
    return _number(f"{element.tag}: {key}", _text(element, key))


def _number(what: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII):
        raise ConversionError(f"{what} is {text[:40]!r}, not an integer")
    return int(text)
