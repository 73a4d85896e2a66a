"""Every handler on layers that no exporter writes: they are refused in one line, or converted, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from support.openvino_bad_layers import WEIGHTS, Search, network_of, without_inputs

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert
from onnx_sparse.converters.openvino.handlers import HANDLERS
from onnx_sparse.converters.openvino.ir import Layer, Network

#: How many layers are tried of each operator.
TRIES = 60
LONGEST = 500

pytestmark = pytest.mark.filterwarnings("ignore")


def outcome(network: Network, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The reason for which a network is refused; empty if it is converted."""
    monkeypatch.setattr("onnx_sparse.converters.openvino.conversion.read_ir", lambda path: network)
    path = folder / "model.xml"
    if not path.with_suffix(".bin").exists():
        path.with_suffix(".bin").write_bytes(WEIGHTS)
    try:
        convert(path)
    except ConversionError as error:
        reasons = [node.reason for node in error.unsupported] or [str(error)]
        for reason in reasons:
            assert reason.strip()
            assert "\n" not in reason
            assert len(reason) < LONGEST
        return reasons[-1]
    return ""


@pytest.mark.parametrize("op", HANDLERS)
def test_layers_with_anything(op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any inputs, as to number, type and shape, and any attributes."""
    search = Search(op)
    for k in range(TRIES):
        inputs, attributes = search.next()
        reason = outcome(network_of(op, inputs, attributes, 1 + k % 3), tmp_path, monkeypatch)
        search.learn(inputs, attributes, reason)


@pytest.mark.parametrize("op", sorted(HANDLERS.keys() - {"Const-1"}))
def test_layers_without_inputs(op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(op)
    for k in range(TRIES):
        _, attributes = search.next()
        reason = outcome(network_of(op, [], attributes, 1 + k % 3), tmp_path, monkeypatch)
        assert reason
        search.learn([], attributes, reason)


def changed(network: Network) -> Iterator[Network]:
    """The network with fewer inputs of its layers, and with Parameters of other types and without a rank."""
    for layer in network.layers.values():
        for count in range(len(layer.inputs) if layer.type != "Result" else 0):
            yield without_inputs(network, layer.id, count)
        if layer.type == "Parameter":
            given = str(layer.data["element_type"])
            for element_type in {"f32", "i64", "u8", "boolean", "string"} - {given}:
                yield _with_parameter(network, layer, element_type, str(layer.data["shape"]))
            yield _with_parameter(network, layer, given, "...")
            yield _with_parameter(network, layer, given, "")
            yield _with_parameter(network, layer, given, "2,3,1,4")
    layers = {number: _untold(layer) for number, layer in network.layers.items()}
    yield replace(network, layers=layers)


def _with_parameter(network: Network, layer: Layer, element_type: str, shape: str) -> Network:
    dims = tuple(int(part) for part in shape.split(",") if part.isdecimal())
    port = replace(layer.outputs[0], precision=element_type, dims=dims or None)
    data = MappingProxyType({**layer.data, "element_type": element_type, "shape": shape})
    return replace(network, layers={**network.layers, layer.id: replace(layer, data=data, outputs=(port,))})


def _untold(layer: Layer) -> Layer:
    """A layer whose ports do not say what they hold, and whose Parameters have no rank."""
    ports = tuple(replace(port, dims=None) for port in layer.outputs)
    data = {**layer.data, "shape": "..."} if layer.type == "Parameter" else layer.data
    return replace(layer, data=data, outputs=ports)


def test_layers_that_were_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers that OpenVINO writes, of every kind of operator, after one change."""
    pytest.importorskip("openvino")
    from zoo import operators

    from onnx_sparse.converters.openvino.ir import read_ir

    found: dict[str, int] = {}
    for name, case in operators.cases().items():
        if found.setdefault(case.op, 0) >= 2 or (found[case.op] and ", dynamic" not in name):
            continue
        try:
            path = case.save(tmp_path)
        except (RuntimeError, TypeError):  # OpenVINO does not build it
            continue
        found[case.op] += 1
        for network in changed(read_ir(path)):
            outcome(network, tmp_path, monkeypatch)
    assert sum(map(bool, found.values())) > 150
