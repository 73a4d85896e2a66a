"""Limits of ONNX Runtime's kernels on the roads from TensorFlow and torch, in the sources' own words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError

RNG = np.random.default_rng(3)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def test_operators_of_tensorflow() -> None:
    """Of all types that its kernels take; one that is refused says so at conversion."""
    tf = pytest.importorskip("tensorflow")
    from onnx_sparse.converters.tensorflow import convert

    image, box = floats(1, 6, 8, 3), floats(1, 4, 6, 4, 2)
    integers = RNG.integers(0, 9, (2, 3, 4))
    cases: list[tuple[str, Any, Any, Any]] = [
        ("bicubic", lambda x: tf.image.resize(x, (3, 11), "bicubic"), image, tf.float32),
        ("area", lambda x: tf.image.resize(x, (3, 4), "area"), image, tf.float32),
        ("bilinear", lambda x: tf.image.resize(x, (3, 11), antialias=False), image, tf.float32),
        ("lrn", lambda x: tf.nn.local_response_normalization(x, 2), image, tf.float32),
    ]
    for dtype in (tf.float32, tf.float16, tf.bfloat16):
        cases += [
            ("max_pool3d", lambda x: tf.nn.max_pool3d(x, 2, 2, "SAME"), box, dtype),
            ("avg_pool3d", lambda x: tf.nn.avg_pool3d(x, 2, 2, "SAME"), box, dtype),
            ("conv3d", lambda x: tf.nn.conv3d(x, tf.ones((2, 2, 2, 2, 1), x.dtype), [1] * 5, "SAME"), box, dtype),
            ("softplus", tf.math.softplus, image, dtype),
            ("depth_to_space", lambda x: tf.nn.depth_to_space(x[:, :, :, 0], 2), box, dtype),
        ]
    for dtype in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.uint32, tf.int64, tf.uint64):
        cases += [
            ("top_k", lambda x: tf.math.top_k(x, 2).values, integers, dtype),
            ("argmax", lambda x: tf.argmax(x, 1), integers, dtype),
            ("one_hot", lambda x: tf.one_hot(tf.cast(x, tf.int32), 10, dtype=x.dtype), integers, dtype),
            ("where", lambda x: tf.where(x > 3, x, x * 2), integers, dtype),
            ("reduce_max", lambda x: tf.reduce_max(x, 1), integers, dtype),
            ("cumsum", lambda x: tf.cumsum(x, 1), integers, dtype),
        ]
    wrong = []
    for name, function, value, dtype in cases:
        given = tf.cast(value, dtype)
        try:
            want = function(given)
        except tf.errors.OpError:
            continue  # TensorFlow has no such kernel
        traced = tf.function(function, input_signature=[tf.TensorSpec(given.shape, dtype)])
        try:
            session = InferenceSession(convert(traced))
        except ConversionError:
            continue
        (have,) = session.run(None, {session.get_inputs()[0].name: given.numpy()})
        loose = 5e-2 if dtype in (tf.float16, tf.bfloat16) else 1e-4
        if not np.allclose(want.numpy().astype(float), have.astype(float), rtol=loose, atol=loose):
            wrong.append(f"{name} of {dtype}")
    assert wrong == []


def test_operators_of_torch() -> None:
    torch = pytest.importorskip("torch")
    from torch.nn import functional

    from onnx_sparse.converters.torch import convert

    def of(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.from_numpy(floats(*shape)).to(dtype)

    integers = torch.from_numpy(RNG.integers(0, 9, (1, 4, 6, 4)))
    cases: list[tuple[Any, Any]] = [
        (lambda x: functional.interpolate(x, scale_factor=0.5, mode="bicubic"), of(1, 2, 6, 8, dtype=torch.float64)),
        (lambda x: functional.interpolate(x, size=(3, 9, 5), mode="trilinear"), of(1, 2, 6, 8, 4)),
        (lambda x: functional.interpolate(x, size=4, mode="area"), of(1, 2, 8)),
        (lambda x: functional.max_pool3d(x, 2), of(1, 2, 4, 4, 4, dtype=torch.bfloat16)),
        (lambda x: functional.local_response_norm(x, 3), of(2, 3, 4)),
        (lambda x: functional.pixel_shuffle(x, 2), integers),
        (lambda x: torch.topk(x.reshape(-1), 3).values, integers.to(torch.int16)),
        (lambda x: torch.addmm(x[0, 0], x[0, 0], x[0, 1, :4]), integers),
        (torch.nn.LSTM(4, 5, batch_first=True).double(), of(2, 3, 4, dtype=torch.float64)),
    ]
    for function, given in cases:
        module = function if isinstance(function, torch.nn.Module) else _module(torch, function)
        want = module(given)
        session = InferenceSession(convert(torch.export.export(module, (given,))))
        value = given.view(torch.uint16).numpy() if given.dtype == torch.bfloat16 else given.numpy()
        if given.dtype == torch.bfloat16:
            import ml_dtypes

            value = value.view(ml_dtypes.bfloat16)
        have = session.run(None, {session.get_inputs()[0].name: value})[0]
        wanted = (want[0] if isinstance(want, tuple) else want).detach().double().numpy()
        np.testing.assert_allclose(wanted, have.astype(float), rtol=1e-2, atol=1e-4)


def _module(torch: Any, function: Any) -> Any:
    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    return Module()
