"""Interpolate of integers, whose means are rounded, and by the modes of Pillow, against OpenVINO."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, c, check_all, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

F = np.float32
RNG = np.random.default_rng(8)
AXES = [2, 3]


def results(image: Any, build: Any, core: Any, folder: Path) -> tuple[Any, Any]:
    """OpenVINO's, and those of the converted model."""
    path = Case("", build, image).save(folder)
    (want,) = core.compile_model(core.read_model(path), "CPU")([image]).values()
    (have,) = InferenceSession(convert(path)).run(None, {"p0": image})
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    return want, have


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64])
@pytest.mark.parametrize("mode", ["nearest", "linear", "linear_onnx", "cubic"])
def test_integers(mode: str, dtype: Any, core: Any, tmp_path: Path) -> None:
    """Results are the nearest integers; where the exact one is just in the middle of two, either."""
    low, high = (0, 256) if dtype == np.uint8 else (-128, 128)
    image = RNG.integers(low, high, (2, 3, 17, 13)).astype(dtype)
    for coordinates, size in itertools.product(("half_pixel", "align_corners"), ((5, 4), (30, 20), (34, 26))):

        def build(x: Any, t: str = coordinates, s: tuple[int, int] = size) -> Any:
            return ops(11).interpolate(x, c(s), mode, "sizes", coordinate_transformation_mode=t, axes=c(AXES))

        want, have = results(image, build, core, tmp_path)
        exact, _ = results(image.astype(F), build, core, tmp_path)
        is_middle = np.abs(np.abs(exact - np.floor(exact)) - 0.5) < 1e-4
        np.testing.assert_array_equal(have[~is_middle], want[~is_middle])
        assert np.abs(want.astype(int) - have).max() <= 1


@pytest.mark.parametrize("mode", ["linear_onnx", "cubic"])
def test_integers_are_rounded(mode: str, tmp_path: Path) -> None:
    """Not cut off, and not beyond the ends of the type, which a cubic curve leaves."""
    image = np.array([[[[0, 255, 255, 0, 1, 2, 255]]]], np.uint8)
    made = []
    for dtype in (np.uint8, F):
        given = image.astype(dtype)
        path = Case("", lambda x: ops(11).interpolate(x, c([1, 33]), mode, "sizes", axes=c(AXES)), given).save(tmp_path)
        made += InferenceSession(convert(path)).run(None, {"p0": given})
    have, exact = made
    assert (exact.min() < -1, exact.max() > 256) == ((mode == "cubic"),) * 2
    np.testing.assert_array_equal(have, np.clip(np.round(exact), 0, 255))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [F, np.float16])
@pytest.mark.parametrize("mode", ["bilinear_pillow", "bicubic_pillow"])
def test_modes_of_pillow(mode: str, dtype: Any, dynamic: bool, core: Any, tmp_path: Path) -> None:
    """Which heed neither the coordinates nor cube_coeff."""
    image = RNG.normal(size=(2, 3, 17, 13)).astype(dtype)
    builds: dict[str, Any] = {}
    for size in ((5, 4), (30, 20), (8, 30), (1, 1), (17, 13), (17, 5)):
        for axes in (AXES, [1, 2], [3, 2]):
            builds[f"{size} {axes}"] = lambda x, s=size, a=axes: ops(11).interpolate(x, c(s), mode, "sizes", axes=c(a))
        builds[f"{size} otherwise"] = lambda x, s=size: ops(11).interpolate(
            x, c(s), mode, "sizes", coordinate_transformation_mode="align_corners", cube_coeff=-0.6, axes=c(AXES)
        )
    for scales in ((0.3, 0.4), (2, 1.5), (0.77, 1.9)):
        builds[f"{scales}"] = lambda x, s=scales: ops(11).interpolate(x, c(s, F), mode, "scales", axes=c(AXES))
    assert check_all(builds, [image], core, tmp_path / "model.xml", dynamic=dynamic) == {}


@pytest.mark.parametrize("mode", ["nearest", "linear_onnx", "cubic"])
def test_antialias_of_modes_without_it(mode: str, core: Any, tmp_path: Path) -> None:
    image = RNG.normal(size=(1, 2, 17, 13)).astype(F)
    builds = {f"{size}": lambda x, s=size: ops(11).interpolate(x, c(s), mode, "sizes", antialias=True, axes=c(AXES))
              for size in ((5, 4), (30, 20))}  # fmt: skip
    assert check_all(builds, [image], core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize("nearest", ["floor", "round_prefer_floor"])
def test_half_pixels_for_nearest(nearest: str, core: Any, tmp_path: Path) -> None:
    image = RNG.normal(size=(1, 2, 7, 8)).astype(F)
    builds = {f"{size}": lambda x, s=size: ops(11).interpolate(
        x, c(s), "nearest", "sizes", coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode=nearest,
        axes=c(AXES)) for size in ((10, 5), (3, 16), (7, 8), (1, 1), (21, 4))}  # fmt: skip
    assert check_all(builds, [image], core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize(
    ("dtype", "options", "reason"),
    [
        (F, {"mode": "linear", "antialias": True}, "antialias of the mode linear, which OpenVINO's CPU plugin ignores"),
        (np.uint8, {"mode": "bilinear_pillow"}, r"of p0 uint8\[1, 2, 7, 8\], whose means OpenVINO rounds otherwise"),
    ],
)
def test_refused(dtype: Any, options: dict[str, Any], reason: str, tmp_path: Path) -> None:
    image = np.zeros((1, 2, 7, 8), dtype)
    given = {"shape_calculation_mode": "sizes", "axes": c(AXES), **options}
    path = Case("", lambda x: ops(11).interpolate(x, c([3, 4]), **given), image).save(tmp_path)
    with pytest.raises(ConversionError, match=reason):
        convert(path)


@pytest.mark.parametrize("mode", ["bilinear_pillow", "bicubic_pillow"])
def test_modes_of_pillow_of_other_ranks(mode: str, core: Any, tmp_path: Path) -> None:
    """ONNX Runtime's kernels take matrices and images, of which the last two axes change."""
    image = RNG.normal(size=(2, 7, 8)).astype(F)
    builds = {f"{size}": lambda x, s=size: ops(11).interpolate(x, c(s), mode, "sizes", axes=c([1, 2]))
              for size in ((3, 4), (14, 5))}  # fmt: skip
    assert check_all(builds, [image], core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize(
    ("shape", "axes", "size"),
    [
        ((1, 8, 8, 3), (1, 2), (4, 4)),
        ((1, 8, 8, 3), (1, 2), (3, 17)),
        ((2, 8, 9), (1, 2), (5, 12)),
        ((1, 2, 6, 7, 8), (2, 3, 4), (3, 9, 4)),
        ((7,), (0,), (3,)),
        ((1, 3, 8, 8), (2, 3), (4, 4)),
    ],
)
def test_cubic_of_any_axes(
    shape: tuple[int, ...], axes: tuple[int, ...], size: tuple[int, ...], coordinates: str, core: Any, tmp_path: Path
) -> None:
    """ONNX Runtime's kernel takes matrices and the last two axes of four dimensions only."""

    def by_size(x: Any) -> Any:
        return ops(11).interpolate(
            x, c(size), "cubic", "sizes", coordinate_transformation_mode=coordinates, axes=c(axes)
        )

    def by_scale(x: Any) -> Any:
        factors = c([0.5, 2.0, 1.5][: len(axes)], F)
        return ops(11).interpolate(
            x, factors, "cubic", "scales", coordinate_transformation_mode=coordinates, axes=c(axes)
        )

    for build in (by_size, by_scale):
        want, have = results(RNG.standard_normal(shape).astype(F), build, core, tmp_path)
        np.testing.assert_allclose(have, want, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["linear", "linear_onnx"])
@pytest.mark.parametrize("given", ["sizes", "scales"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2, 3, 4), (0, 2)),
        ((2, 3, 4, 5), (1, 3)),
        ((2, 3, 4, 5), (0, 3)),
        ((2, 3, 4, 5), (2, 3)),
        ((2, 3, 4, 3, 2), (1, 2)),
        ((2, 3, 4, 3, 2), (0, 2, 4)),
    ],
)
def test_linear_of_any_axes(
    shape: tuple[int, ...], axes: tuple[int, ...], given: str, mode: str, dynamic: bool, core: Any, tmp_path: Path
) -> None:
    """ONNX Runtime's kernels take two or three axes at the end of an image; the others are resized one by one."""
    image = np.random.default_rng(0).standard_normal(shape).astype(F)
    numbers = c([2 * shape[axis] for axis in axes]) if given == "sizes" else c([2.0] * len(axes), F)
    case = Case("", lambda x: ops(11).interpolate(x, numbers, mode, given, axes=c(axes)), image, dynamic=dynamic)
    path = case.save(tmp_path)
    expected = core.compile_model(path, "CPU")([image])[0]
    actual = InferenceSession(convert(path)).run(None, {"p0": image})[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((2, 6), 1), ((2, 6, 3), 1), ((2, 6, 3, 2), 1), ((2, 6, 2, 3, 2), 1),
                                             ((2, 3, 6), 2), ((6, 2, 3, 2), 0), ((2, 0, 3), 1)])  # fmt: skip
def test_local_response_of_any_axis(shape: tuple[int, ...], axis: int, tmp_path: Path) -> None:
    """Against the formula: OpenVINO's answers differ over some axes."""
    x = np.random.default_rng(0).standard_normal(shape).astype(F)
    path = Case("LRN", lambda p: ops(16).lrn(p, c([axis]), 0.5, 0.75, 2.0, 3), x).save(tmp_path)
    squares = np.moveaxis(np.square(x), axis, 0)
    padded = np.concatenate([np.zeros_like(squares[:1]), squares, np.zeros_like(squares[:1])]) if x.size else squares
    sums = padded[:-2] + padded[1:-1] + padded[2:] if x.size else squares
    expected = x / np.power(2.0 + 0.5 / 3 * np.moveaxis(sums, 0, axis), 0.75)
    actual = InferenceSession(convert(path)).run(None, {"p0": x})[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
