"""IRs as older tools wrote them: version 10, other spellings, experimental layers; and weights of 3 and 6 bits."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

ov = pytest.importorskip("openvino", reason="the extra `openvino` is not installed")
import openvino.opset8 as ops  # noqa: E402
from support import openvino_attributes  # noqa: E402

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.openvino import convert, verify  # noqa: E402
from onnx_sparse.converters.openvino.handlers import HANDLERS, Node  # noqa: E402
from onnx_sparse.converters.openvino.handlers.attributes import _attributes  # noqa: E402
from onnx_sparse.converters.openvino.ir import Layer  # noqa: E402
from onnx_sparse.converters.writing.reads import Inputs  # noqa: E402

INTEGERS = {f"{kind[0]}{bits}": f"tensor({kind}{bits})" for kind in ("uint", "int") for bits in (8, 16, 32, 64)}
ONNX = {
    "f32": "tensor(float)",
    "f16": "tensor(float16)",
    "f64": "tensor(double)",
    "boolean": "tensor(bool)",
    **INTEGERS,
}
TYPES = tuple(ONNX)
RNG = np.random.default_rng(0)


def written(folder, model, *changes):
    """The file of a model, with its text changed; of version 10, which names no tensors, unless a change says so."""
    path = folder / "model.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    text = path.read_text()
    for pattern, other in changes or ((r'(<net [^>]*version=)"11"', r'\1"10"'), (r' (output_)?names="[^"]*"', "")):
        text, count = re.subn(pattern, other, text)
        assert count, pattern
    path.write_text(text)
    return path


def of_openvino(path, feeds):
    compiled = ov.Core().compile_model(ov.Core().read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return [np.array(value) for value in compiled(feeds).values()]


@pytest.mark.parametrize("given", TYPES)
def test_ports_of_version_10(tmp_path, given):
    """Inputs of each type, passed on as they are and cast to every type."""
    x = ops.parameter([2, 3], getattr(ov.Type, given), name="x")
    outputs = [ops.convert(x, kind) for kind in TYPES if kind != given]
    parts = ops.split(ops.convert(x, "f32"), ops.constant(np.int64(1)), 3)
    model = ov.Model([*(node.output(0) for node in outputs), parts.output(2), parts.output(0)], [x], "m")
    path = written(tmp_path, model)
    read, session = ov.Core().read_model(path), InferenceSession(convert(path))
    for ports, values in ((read.inputs, session.get_inputs()), (read.outputs, session.get_outputs())):
        for port, value in zip(ports, values, strict=True):
            assert value.type == ONNX[port.get_element_type().get_type_name()]
            assert value.name in port.get_names()
    data = np.array([[0, 1, 2], [3, 100, 1]]).astype(read.inputs[0].get_element_type().to_dtype())
    for want, got in zip(of_openvino(path, [data]), session.run(None, {"x": data}), strict=True):
        np.testing.assert_array_equal(got, want)


def test_half_floats_of_version_10_are_weights(tmp_path):
    """The constants stay small, and are computed with as float32."""
    weights = RNG.normal(size=(64, 32, 3, 3)).astype(np.float16)
    x = ops.parameter([1, 32, 9, 9], ov.Type.f16, name="x")
    convolved = ops.convolution(x, ops.constant(weights), [1, 1], [1, 1], [1, 1], [1, 1])
    slopes = ops.constant(RNG.random(64).astype(np.float32).astype(np.float16))
    model = ov.Model([ops.prelu(convolved, slopes)], [x], "m")
    path = written(tmp_path, model)
    made = convert(path)
    assert made.ByteSize() < 1.3 * weights.nbytes
    data = RNG.normal(size=(1, 32, 9, 9)).astype(np.float32)
    (want,), (got,) = of_openvino(path, [data]), InferenceSession(made).run(None, {"x": data})
    np.testing.assert_allclose(got, want, atol=2e-6 * np.abs(want).max())
    assert all(record.ok for record in verify(path, made))


@pytest.mark.parametrize(
    ("change", "build"),
    [
        ((r'type="Soft[Mm]ax"', 'type="softmax"'), lambda x: ops.softmax(x, 1)),
        ((r'type="ReLU"', 'type="RELU"'), lambda x: ops.relu(x)),
        ((r'type="Parameter"', 'type="parameter"'), lambda x: ops.tanh(x)),
        ((r'type="GRUCell" version="opset[0-9]"', 'type="GRUCell" version="experimental"'), lambda x: gru_cell(x)),
        ((r'type="RNNCell" version="opset[0-9]"', 'type="RNNCell" version="extension"'), lambda x: rnn_cell(x)),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_spellings(tmp_path, change, build):
    x = ops.parameter([2, 3], ov.Type.f32, name="x")
    path = written(tmp_path, ov.Model([build(x)], [x], "m"), change)
    data = RNG.normal(size=(2, 3)).astype(np.float32)
    (want,), (got,) = of_openvino(path, [data]), InferenceSession(convert(path)).run(None, {"x": data})
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_every_attribute_of_this_openvino_is_known():
    """`python tests/support/openvino_attributes.py` writes those of a later one."""
    for op_type, *names in map(str.split, openvino_attributes.listed().splitlines()):
        assert set(names) <= _attributes()[op_type], op_type


@pytest.mark.parametrize("op_type", HANDLERS)
def test_attributes_that_an_operator_has_not_are_ignored_as_in_openvino(op_type):
    """Model Optimizer wrote some. One that the operator has is never ignored."""
    kind, _, version = op_type.rpartition("-")
    data = {"attribute_of_an_older_tool": "0,0"} | dict.fromkeys(_attributes().get(op_type, ()), "1")
    node = Node(Layer(0, "n", kind, f"opset{version}", data, (), ()), Inputs([]), (), None, None)
    told = {part.name for part in node.unread()}
    assert told == _attributes().get(op_type, data.keys())


def test_a_convolution_of_model_optimizer(tmp_path):
    x = ops.parameter([1, 3, 5, 5], ov.Type.f32, name="x")
    model = ov.Model([ops.convolution(x, constant(4, 3, 3, 3), [1, 1], [0, 0], [0, 0], [1, 1])], [x], "m")
    path = written(tmp_path, model, (r'<data strides="1, 1"', r'<data strides="1, 1" output_padding="0,0"'))
    data = RNG.normal(size=(1, 3, 5, 5)).astype(np.float32)
    (want,), (got,) = of_openvino(path, [data]), InferenceSession(convert(path)).run(None, {"x": data})
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_indices_have_the_type_of_their_attribute(tmp_path, kind):
    """Model Optimizer wrote the type of the values on both ports."""
    x = ops.parameter([1, 2, 5, 5], ov.Type.f32, name="x")
    pool = ops.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [3, 3], "floor", "explicit", kind, 2)
    change = (rf'precision="{kind.upper()}"', 'precision="FP32"')
    path = written(tmp_path, ov.Model(pool.outputs(), [x], "m"), change)
    data = RNG.permutation(50).reshape(1, 2, 5, 5).astype(np.float32)
    for want, got in zip(
        of_openvino(path, [data]), InferenceSession(convert(path)).run(None, {"x": data}), strict=True
    ):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


def constant(*shape):
    return ops.constant(RNG.normal(size=shape).astype(np.float32))


def gru_cell(x):
    return ops.gru_cell(x, constant(2, 4), constant(12, 3), constant(12, 4), constant(12), 4)


def rnn_cell(x):
    return ops.rnn_cell(x, constant(2, 4), constant(4, 3), constant(4, 4), constant(4), 4, ["tanh"], [], [])


@pytest.mark.parametrize(("kind", "bits"), [("u1", 1), ("u2", 2), ("u3", 3), ("u4", 4), ("u6", 6)])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 31])
def test_weights_of_few_bits(tmp_path, kind, bits, count):
    if not hasattr(ov.Type, kind):
        pytest.skip(f"this OpenVINO has no {kind}")
    numbers = RNG.integers(0, 2**bits, count).astype(np.uint8)
    x = ops.parameter([count], ov.Type.f32, name="x")
    model = ov.Model([ops.multiply(x, ops.convert(ops.constant(numbers, getattr(ov.Type, kind)), "f32"))], [x], "m")
    path = tmp_path / "model.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    (got,) = InferenceSession(convert(path)).run(None, {"x": np.ones(count, np.float32)})
    np.testing.assert_array_equal(got, numbers)


@pytest.mark.parametrize("other", ["f16", "f64"])
def test_operands_of_other_floats(tmp_path, other):
    """OpenVINO takes slopes and limits of another float type than the data."""
    dtype = {"f16": np.float16, "f64": np.float64}[other]
    x = ops.parameter([2, 4, 5], ov.Type.f32, name="x")
    low, high = (ops.constant(np.array(value, dtype)) for value in (-1, 1))
    built = {"slopes": ops.prelu(x, ops.constant(np.linspace(0.1, 1, 4).astype(dtype)))}
    try:
        built["limits"] = ops.fake_quantize(x, low, high, low, high, 16)
    except RuntimeError:
        warnings.warn(f"OpenVINO refuses limits of {other}", stacklevel=1)
    for name, node in built.items():
        path = tmp_path / f"{name}.xml"
        ov.save_model(ov.Model([node], [x], "m"), path, compress_to_fp16=False)
        data = RNG.normal(size=(2, 4, 5)).astype(np.float32)
        (want,), (got,) = of_openvino(path, [data]), InferenceSession(convert(path)).run(None, {"x": data})
        np.testing.assert_allclose(got, want, atol=1e-3)
