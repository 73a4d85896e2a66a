"""Files of version 10 as Model Optimizer wrote them: networks in FP32, FP16 and FP16-INT8, equal to OpenVINO's.

Their rules: in FP16, every float of the file is; FP16-INT8 also has FakeQuantize before each product
and on each weight; no tensor is named; a Convolution has an `output_padding`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ov = pytest.importorskip("openvino", reason="the extra `openvino` is not installed")
import openvino.opset8 as ops  # noqa: E402

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.openvino import convert, verify  # noqa: E402

RNG = np.random.default_rng(0)
TYPES = {"f32": "tensor(float)", "i32": "tensor(int32)"}
Network = Callable[["Builder"], list[Any]]


class Builder:
    """Layers of random weights; `quantized` ones are between steps of FakeQuantize.

    Attributes:
        inputs: The Parameters.
    """

    def __init__(self, *, quantized: bool) -> None:
        self.quantized = quantized
        self.inputs: list[Any] = []

    def input(self, *shape: int) -> Any:
        self.inputs.append(ops.parameter([*shape], ov.Type.f32, name=f"input.{len(self.inputs)}"))
        return self.inputs[-1]

    def constant(self, *shape: int, scale: float = 1.0) -> Any:
        return ops.constant((RNG.normal(size=shape) * scale).astype(np.float16).astype(np.float32))

    def steps(self, x: Any, levels: int = 256) -> Any:
        if not self.quantized:
            return x
        low, high = (ops.constant(np.float32(end)) for end in (-4, 4 - 8 / levels))
        return ops.fake_quantize(x, low, high, low, high, levels)

    def weight(self, *shape: int) -> Any:
        return self.steps(self.constant(*shape, scale=1 / np.sqrt(np.prod(shape[1:]))), 255)

    def convolution(self, x: Any, *shape: int, stride: int = 1) -> Any:
        pads = [size // 2 for size in shape[2:]]
        made = ops.convolution(self.steps(x), self.weight(*shape), [stride] * 2, pads, pads, [1, 1])
        return ops.add(made, self.constant(1, shape[0], 1, 1))

    def dense(self, x: Any, width: int, columns: int) -> Any:
        return ops.add(ops.matmul(self.steps(x), self.weight(columns, width), False, True), self.constant(1, columns))


def perceptron(b: Builder) -> list[Any]:
    return [ops.softmax(b.dense(ops.relu(b.dense(b.input(3, 16), 16, 32)), 32, 5), 1)]


def residual(b: Builder) -> list[Any]:
    x = ops.relu(b.convolution(b.input(1, 3, 16, 16), 8, 3, 3, 3, stride=2))
    x = ops.relu(ops.add(x, b.convolution(x, 8, 8, 3, 3)))
    return [ops.reduce_mean(x, ops.constant(np.int64([2, 3])), True)]


def landmarks(b: Builder) -> list[Any]:
    x = ops.prelu(b.convolution(b.input(1, 3, 12, 12), 8, 3, 3, 3), b.constant(8))
    return [ops.sigmoid(ops.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], "ceil", "explicit").output(0))]


def depthwise(b: Builder) -> list[Any]:
    x = b.convolution(b.input(1, 3, 10, 10), 6, 3, 1, 1)
    x = ops.group_convolution(b.steps(x), b.weight(6, 1, 1, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1])
    return [ops.clamp(x, 0, 6), ops.elu(x, 1.0)]


def upsampling(b: Builder) -> list[Any]:
    x = b.convolution(b.input(1, 3, 5, 5), 4, 3, 3, 3)
    return [ops.convolution_backprop_data(x, b.weight(4, 2, 2, 2), [2, 2])]


def resizing(b: Builder) -> list[Any]:
    x = b.convolution(b.input(1, 3, 5, 5), 4, 3, 3, 3)
    return [ops.interpolate(x, ops.constant(np.int64([10, 10])), {"axes": [2, 3], "mode": "linear"})]


def attention(b: Builder) -> list[Any]:
    x = b.input(2, 6, 8)
    query, key, value = (b.dense(x, 8, 8) for _ in range(3))
    scores = ops.softmax(ops.multiply(ops.matmul(query, key, False, True), b.constant(1)), 2)
    return [ops.matmul(scores, value, False, False)]


def normalized(b: Builder) -> list[Any]:
    x = ops.mvn(b.input(2, 6, 8), ops.constant(np.int64([2])), True, 1e-3, "inside_sqrt")
    return [ops.gelu(ops.add(ops.multiply(x, b.constant(8)), b.constant(8)), "erf"), ops.hswish(x)]


def recurrent(b: Builder) -> list[Any]:
    x, state, cell = b.input(2, 4), b.constant(2, 5), b.constant(2, 5)
    parts = ops.lstm_cell(x, state, cell, b.constant(20, 4), b.constant(20, 5), b.constant(20), 5)
    return [parts.output(0), parts.output(1)]


def ranked(b: Builder) -> list[Any]:
    """Results of i64 and boolean, and two of one layer."""
    x = b.dense(b.input(3, 8), 8, 16)
    best = ops.topk(x, ops.constant(np.int64(3)), 1, "max", "value", "i64")
    return [best.output(0), best.output(1), ops.greater(x, ops.constant(np.float32(0))), ops.shape_of(x, "i64")]


def detector(b: Builder) -> list[Any]:
    image = b.input(1, 3, 16, 16)
    x = ops.relu(b.convolution(image, 8, 3, 3, 3, stride=4))
    boxes, scores = (
        ops.reshape(ops.transpose(b.convolution(x, 8 * k, 8, 3, 3), ops.constant(np.int64([0, 2, 3, 1]))),
                    ops.constant(np.int64(shape)), False)
        for k, shape in ((1, [1, -1, 4]), (1, [1, -1, 4]))
    )  # fmt: skip
    return [ops.concat([boxes, ops.softmax(scores, 2)], 2), ops.reduce_max(scores, ops.constant(np.int64([2])), False)]


NETWORKS = (perceptron, residual, landmarks, depthwise, upsampling, resizing, attention, normalized, recurrent, ranked,
            detector)  # fmt: skip


def of_model_optimizer(network: Network, folder: Path, kind: str) -> Path:
    """The two files of a network in version 10."""
    path, half, built = folder / "model.xml", kind != "FP32", Builder(quantized=kind == "FP16-INT8")
    outputs = [made if isinstance(made, ov.Output) else made.output(0) for made in network(built)]
    ov.save_model(ov.Model(outputs, built.inputs, network.__name__), path, compress_to_fp16=False)
    root, stored, made = ElementTree.parse(path).getroot(), path.with_suffix(".bin").read_bytes(), bytearray()
    root.set("version", "10")
    for layer in root.iter("layer"):
        data = layer.find("data")
        for port in layer.iter("port"):
            port.attrib.pop("names", None)
            if half and port.get("precision") == "FP32":
                port.set("precision", "FP16")
        if data is None:
            continue
        data.attrib.pop("output_names", None)
        if layer.get("type") == "Convolution":
            data.set("output_padding", "0,0")
        is_half = half and data.get("element_type") == "f32"
        if layer.get("type") == "Const":
            begin = int(data.attrib["offset"])
            part = stored[begin : begin + int(data.attrib["size"])]
            part = np.frombuffer(part, np.float32).astype(np.float16).tobytes() if is_half else part
            data.attrib.update(offset=str(len(made)), size=str(len(part)))
            made += part
        if is_half:
            data.set("element_type", "f16")
    path.with_suffix(".bin").write_bytes(made)
    ElementTree.ElementTree(root).write(path)
    return path


@pytest.mark.parametrize("kind", ["FP32", "FP16", "FP16-INT8"])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_ports_types_and_numbers_are_those_of_openvino(network: Network, kind: str, tmp_path: Path) -> None:
    path = of_model_optimizer(network, tmp_path, kind)
    core = ov.Core()
    read, model = core.read_model(path), convert(path)
    session = InferenceSession(model)
    for ports, values in ((read.inputs, session.get_inputs()), (read.outputs, session.get_outputs())):
        for port, value in zip(ports, values, strict=True):
            assert value.type == TYPES[port.get_element_type().get_type_name()]
            assert list(value.shape) == list(port.get_shape())
            assert value.name in (port.get_names() or {value.name})
    feeds = {value.name: RNG.normal(size=value.shape).astype(np.float32) for value in session.get_inputs()}
    config = {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": "NO"}
    wanted = core.compile_model(read, "CPU", config)([*feeds.values()]).values()
    step = 8 / 256 if kind == "FP16-INT8" else 0  # a number near the middle between two becomes either
    for want, got in zip(wanted, session.run(None, feeds), strict=True):
        error = np.abs(np.float64(want) - got)
        assert (error <= 1e-5 * max(1, np.abs(want).max(initial=0))).mean() >= (0.9 if step else 1), error.max()
        assert error.max(initial=0) <= 1e-5 * max(1, np.abs(want).max(initial=0)) + step


@pytest.mark.slow
@pytest.mark.parametrize("network", [residual, landmarks, ranked, detector], ids=lambda network: network.__name__)
def test_they_are_verified(network: Network, tmp_path: Path) -> None:
    path = of_model_optimizer(network, tmp_path, "FP16-INT8")
    assert [record for record in verify(path, convert(path)) if not record.ok] == []
