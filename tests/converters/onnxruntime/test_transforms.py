"""Fourier transforms of any length: as exact as those of powers of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from onnx_sparse import InferenceSession
from onnx_sparse.converters.onnxruntime.guards import guard

_LENGTHS = [1, 2, 3, 12, 100, 127, 400, 512, 1000, 4001]


def transform(
    op_type: str,
    inputs: list[str],
    shape: list[Any],
    *,
    dtype: int = TensorProto.FLOAT,
    opset: int = 20,
    **attributes: Any,
) -> tuple[ModelProto, int]:
    """A guarded model of one transform, and how many of its nodes are not of float32."""
    kinds = {"x": (dtype, shape), "window": (dtype, [None]), "axis": (TensorProto.INT64, [])}
    given = [
        helper.make_tensor_value_info(name, *kinds.get(name, (TensorProto.INT64, []))) for name in filter(None, inputs)
    ]
    node = helper.make_node(op_type, inputs, ["y"], **attributes)
    graph = helper.make_graph([node], "transform", given, [helper.make_tensor_value_info("y", dtype, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model)
    guard(model)
    return model, sum(node.op_type == "Cast" for node in model.graph.node)


def error(got: Any, want: Any) -> float:
    """The largest error, in parts of the largest number that is not the mean."""
    got = got[..., 0] + 1j * got[..., 1]
    assert got.shape == want.shape
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30))


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("inverse", [0, 1])
def test_a_length_that_is_known(length: int, inverse: int):
    model, casts = transform("DFT", ["x"], [2, length, 2], opset=18, axis=1, inverse=inverse)
    assert casts == (0 if length.bit_count() == 1 else 2)
    x = np.random.default_rng(length).standard_normal((2, length, 2)).astype(np.float32)
    z = x[..., 0] + 1j * x[..., 1].astype(np.float64)
    want = np.fft.ifft(z) if inverse else np.fft.fft(z)
    assert error(InferenceSession(model).run(None, {"x": x})[0], want) < 2e-6


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("length", _LENGTHS)
def test_a_length_that_is_fed(length: int, opset: int):
    """The input is cut, or filled up with zeros."""
    inputs, attributes = (["x", "length", "axis"], {}) if opset == 20 else (["x", "length"], {"axis": 1})
    model, casts = transform("DFT", inputs, [None, None, 1], opset=opset, onesided=1, **attributes)
    assert casts == 2
    x = np.random.default_rng(length).standard_normal((3, 100, 1)).astype(np.float32)
    feeds = {"x": x, "length": np.array(length), "axis": np.array(1)}
    got = InferenceSession(model).run(None, {name: feeds[name] for name in inputs})[0]
    assert error(got, np.fft.rfft(x[..., 0].astype(np.float64), length)) < 2e-6


@pytest.mark.parametrize("length", [12, 400, 512])
def test_frames(length: int):
    model, casts = transform("STFT", ["x", "step", "window", "length"], [None, None, 1], opset=17)
    assert casts == 3  # the signal, the window, the result
    rng = np.random.default_rng(length)
    x = rng.standard_normal((2, 3 * length)).astype(np.float32)
    window = rng.random(length).astype(np.float32)
    feeds = {"x": x[..., None], "step": np.array(length), "window": window, "length": np.array(length)}
    want = np.fft.rfft(x.reshape(2, 3, length).astype(np.float64) * window)
    assert error(InferenceSession(model).run(None, feeds)[0], want) < 2e-6


@pytest.mark.parametrize("length", [8, 12])
def test_half_floats(length: int):
    """ONNX Runtime has no kernel for them."""
    model, casts = transform("DFT", ["x"], [1, length, 1], dtype=TensorProto.FLOAT16, opset=18, axis=1)
    assert casts == 2
    x = np.arange(length, dtype=np.float16)[None, :, None]
    assert error(InferenceSession(model).run(None, {"x": x})[0].astype(np.float64), np.fft.fft(x[..., 0])) < 1e-3


def test_of_tensorflow():
    tf = pytest.importorskip("tensorflow")
    from onnx_sparse.converters.tensorflow import convert

    @tf.function(input_signature=[tf.TensorSpec([None, 1000])])
    def spectrum(x: Any) -> Any:
        return tf.abs(tf.signal.rfft(x))

    x = np.random.default_rng(0).standard_normal((2, 1000)).astype(np.float32)
    want = np.abs(np.fft.rfft(x.astype(np.float64)))
    np.testing.assert_allclose(InferenceSession(convert(spectrum)).run(None, {"x": x})[0], want, rtol=1e-5, atol=1e-4)


def test_of_torch():
    torch = pytest.importorskip("torch")
    from onnx_sparse.converters.torch import convert

    class Spectrum(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.fft.rfft(x).abs()

    x = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0))
    model = convert(torch.export.export(Spectrum(), (x,)))
    want = np.abs(np.fft.rfft(x.numpy().astype(np.float64)))
    (got,) = InferenceSession(model).run(None, {model.graph.input[0].name: x.numpy()})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)
