"""Fourier transforms over all axes, lengths and both directions, against numpy, and OpenVINO where it is right."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, c, check_all, compiling_core, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters.openvino import convert

ov = pytest.importorskip("openvino")

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(4, 5, 6)).astype(np.float32)
COMPLEX = RNG.normal(size=(4, 5, 6, 2)).astype(np.float32)
AXES = [[0], [1], [-1], [0, 1], [1, 2], [2, 0], [0, 1, 2]]
VERSIONS = {"dft": 7, "idft": 7, "rdft": 9, "irdft": 9}
IN_NUMPY: dict[str, Callable[..., Any]] = {
    "dft": np.fft.fftn, "idft": np.fft.ifftn, "rdft": np.fft.rfftn, "irdft": np.fft.irfftn,
}  # fmt: skip


def transform(name: str, axes: list[int], *lengths: list[int]) -> Callable[..., Any]:
    # The axes are those of the numbers, without the last one of complex numbers.
    return lambda x: getattr(ops(VERSIONS[name]), name)(x, c(axes), *map(c, lengths))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", list(VERSIONS))
def test_as_openvino(name: str, dynamic: bool, tmp_path: Path) -> None:
    given = REAL if name == "rdft" else COMPLEX
    builds = {str(axes): transform(name, axes) for axes in AXES}
    assert check_all(builds, [given], compiling_core(), tmp_path / "model.xml", dynamic=dynamic) == {}


@pytest.mark.parametrize("lengths", [[3, 4, 3], [5, 7, 8], [-1, 4, -1]], ids=str)
@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", list(VERSIONS))
def test_lengths(name: str, axes: list[int], lengths: list[int], tmp_path: Path) -> None:
    """What is longer than the data is extended by zeros, which OpenVINO does not always do."""
    given = REAL if name == "rdft" else COMPLEX
    chosen = lengths[: len(axes)]
    model = convert(Case("", transform(name, axes, chosen), given).save(tmp_path))
    (got,) = InferenceSession(model).run(None, {"p0": given})
    numbers = REAL if name == "rdft" else COMPLEX[..., 0] + 1j * COMPLEX[..., 1]
    sizes = [numbers.shape[a] if n == -1 else n for a, n in zip(axes, chosen, strict=True)]
    if name == "irdft" and chosen[-1] == -1:
        sizes[-1] = 2 * (numbers.shape[axes[-1]] - 1)
    want = IN_NUMPY[name](numbers, sizes, axes)
    want = want if name == "irdft" else np.stack([want.real, want.imag], -1)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(2, 20), (20,)], ids=str)
def test_frames(shape: tuple[int, ...], dynamic: bool, tmp_path: Path) -> None:
    """Short-time transforms with every window, step and layout."""
    signal = RNG.normal(size=shape).astype(np.float32)

    def frames(size: int, step: int, window: int, transpose: bool) -> Callable[..., Any]:
        weights = c(np.hanning(window + 2)[1:-1], np.float32)
        return lambda x: ops(15).stft(x, weights, c(size), c(step), transpose)

    builds = {
        str(chosen): frames(*chosen)
        for chosen in itertools.product((8, 11), (3, 8), (5, 8), (False, True))
    }  # fmt: skip
    assert check_all(builds, [signal], compiling_core(), tmp_path / "model.xml", dynamic=dynamic) == {}


def test_digits(tmp_path: Path) -> None:
    """Sizes that are no powers of two are transformed as well as the others."""
    numbers = RNG.normal(size=(1, 125, 2)).astype(np.float32)
    model = convert(Case("", transform("dft", [1]), numbers).save(tmp_path))
    (got,) = InferenceSession(model).run(None, {"p0": numbers})
    want = np.fft.fft(numbers[..., 0] + 1j * numbers[..., 1])
    error = np.abs(got[..., 0] + 1j * got[..., 1] - want).max() / np.abs(want).max()
    assert error < 1e-6


@pytest.mark.pairwise
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
@pytest.mark.parametrize("size", [16, 15])
def test_frames_put_together(size: int, shape: tuple[int, ...], dynamic: bool, tmp_path: Path) -> None:
    """ISTFT with windows that begin with 0 or are shorter than the frames, and lengths shorter and longer."""
    given = RNG.normal(size=(*shape, size // 2 + 1, 6, 2)).astype(np.float32)
    builds: dict[str, Callable[..., Any]] = {}
    for window, center, normalized, length in itertools.product(
        (size, 9), (True, False), (True, False), (None, 10, 25, 70)
    ):
        weights = c(np.hanning(window), np.float32)
        extra = {} if length is None else {"signal_length": c(length)}
        builds[f"{window} {center} {normalized} {length}"] = lambda x, w=weights, a=(center, normalized), e=extra: ops(
            16
        ).istft(x, w, c(size), c(4), *a, **e)
    assert check_all(builds, [given], compiling_core(), tmp_path / "model.xml", dynamic=dynamic) == {}


def test_frames_of_half_floats(tmp_path: Path) -> None:
    """Which ONNX Runtime does not add up."""
    given = RNG.normal(size=(2, 9, 6, 2)).astype(np.float16)
    weights = c(np.hanning(18)[1:-1], np.float16)
    builds = {f"{center}": lambda x, a=center: ops(16).istft(x, weights, c(16), c(4), a, False)
              for center in (True, False)}  # fmt: skip
    assert check_all(builds, [given], compiling_core(), tmp_path / "model.xml") == {}
