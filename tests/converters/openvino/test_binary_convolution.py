"""BinaryConvolution against OpenVINO, and against sums over its windows."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, check_all, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

F = np.float32
RNG = np.random.default_rng(5)


def filters(stored: Any, *shape: int) -> Any:
    import openvino as ov

    return ov.op.Constant(ov.Tensor(stored, ov.Shape(shape), ov.Type.u1))


def convolution(x: Any, shape: tuple[int, ...], **options: Any) -> Any:
    size = int(np.prod(shape))
    given = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "pad_value": 0.0,
             "mode": "xnor-popcount", **options}  # fmt: skip
    return ops(1).binary_convolution(x, filters(np.arange(1, size // 8 + 1).astype(np.uint8), *shape), **given)


@pytest.mark.parametrize("dtype", [F, np.float16])
@pytest.mark.parametrize("shape", [(3, 8, 3, 3), (17, 40, 2, 1), (64, 24, 1, 1)], ids=str)
def test_openvino(shape: tuple[int, ...], dtype: Any, core: Any, tmp_path: Path) -> None:
    x = RNG.normal(size=(2, shape[1], 9, 8)).astype(dtype)
    x[:, :, 0] = RNG.choice([-1, 0, 1, 0.2], x[:, :, 0].shape)
    windows: list[dict[str, Any]] = [
        {},
        {"strides": [2, 1], "pads_begin": [1, 2], "pads_end": [2, 1]},
        {"pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [2, 3]},
        {"auto_pad": "same_upper"},
        {"auto_pad": "same_lower", "strides": [2, 2]},
        {"auto_pad": "valid", "pads_begin": [1, 1]},
    ]
    builds = {
        f"{options} {filling}": lambda x, a=options, f=filling: convolution(x, shape, pad_value=f, **a)
        for options, filling in itertools.product(windows, (0.0, 1.0, -1.0))
    }
    assert check_all(builds, [x], core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize("ends", [(0.0, 1.0), (1.0, 0.0)])
def test_quantized_to_two_levels(ends: tuple[float, float], core: Any, tmp_path: Path) -> None:
    """As models have it. With other ends than 0 and 1, OpenVINO takes all numbers for -1."""
    limit = RNG.normal(size=(1, 16, 1, 1)).astype(F)
    builds = {
        f"{filling}": lambda x, f=filling: convolution(
            ops(1).fake_quantize(x, limit, limit, F(ends[0]), F(ends[1]), 2), (5, 16, 3, 3), pads_begin=[1, 1],
            pads_end=[1, 1], pad_value=f)
        for filling in (0.0, 1.0, -1.0)
    }  # fmt: skip
    assert check_all(builds, [RNG.normal(size=(2, 16, 7, 6)).astype(F)], core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize("filling", [0.0, 1.0, -1.0])
def test_dynamic_shapes(filling: float, tmp_path: Path) -> None:
    """Which OpenVINO does not run."""
    x = RNG.normal(size=(2, 8, 5, 6)).astype(F)
    stored = RNG.integers(0, 256, 4 * 9, np.uint8)
    path = Case("", lambda x: ops(1).binary_convolution(x, filters(stored, 4, 8, 3, 3), [1, 1], [1, 0], [0, 1], [1, 1],
                "xnor-popcount", filling), x, dynamic=True, static=((0, 1),)).save(tmp_path)  # fmt: skip
    (have,) = InferenceSession(convert(path)).run(None, {"p0": x})
    padded = np.pad(np.where(x > 0, 1, -1), ((0, 0), (0, 0), (1, 0), (0, 1)), constant_values=int(filling))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    weights = 2 * np.unpackbits(stored, bitorder="little").reshape(4, 8, 3, 3).astype(int) - 1
    np.testing.assert_array_equal(have, np.einsum("bcyxij,ocij->boyx", windows, weights))


@pytest.mark.parametrize(
    ("channels", "filling", "dtype", "reason"),
    [
        (8, 0.5, F, "pad_value = 0.5 is not supported; -1, 0 and 1 are"),
        (12, 0.0, F, "of u1, which must be of u1 with a multiple of 8 channels"),
        (8, 0.0, np.int32, "it is of int32; float, float16 and bfloat16 are supported"),
    ],
)
def test_refused(channels: int, filling: float, dtype: Any, reason: str, tmp_path: Path) -> None:
    x = np.zeros((1, channels, 5, 5), dtype)
    path = Case("", lambda x: convolution(x, (2, channels, 2, 2), pad_value=filling), x).save(tmp_path)
    with pytest.raises(ConversionError, match=reason):
        convert(path)


def test_filters_of_another_type(tmp_path: Path) -> None:
    x = np.zeros((1, 8, 5, 5), F)
    path = Case("", lambda x: ops(1).binary_convolution(x, np.ones((2, 8, 3, 3), np.uint8), [1, 1], [0, 0], [0, 0],
                [1, 1], "xnor-popcount", 0.0), x).save(tmp_path)  # fmt: skip
    with pytest.raises(ConversionError, match="of u8, which must be of u1"):
        convert(path)
