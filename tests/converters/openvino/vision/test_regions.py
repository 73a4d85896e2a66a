"""What is taken from images by boxes, each operator over its attributes, against OpenVINO."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
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
RNG = np.random.default_rng(3)
Build = Callable[..., Any]
IMAGES = RNG.normal(size=(2, 3, 9, 7)).astype(F)
#: Inside the image, beyond its edges, outside of it, of a point, and back to front.
BOXES = np.concatenate([
    np.sort(RNG.uniform(0, 14, (8, 2, 2)), 1).reshape(8, 4),
    np.sort(RNG.uniform(-6, 24, (6, 2, 2)), 1).reshape(6, 4),
    [[-20, -20, -12, -12], [3, 3, 3, 3], [9, 8, 2, 1], [0, 0, 13.9, 17.9]],
]).astype(F)  # fmt: skip
NUMBERS = RNG.integers(0, 2, len(BOXES)).astype(np.int32)


def half(turn: int, *options: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every other combination of options, and in the next turn the others: each pair of options is in one of them."""
    places = itertools.product(*(range(len(each)) for each in options))
    chosen = (place for place in places if (sum(place) + turn) % 2)
    return [tuple(each[k] for each, k in zip(options, place, strict=True)) for place in chosen]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("aligned", ["asymmetric", "half_pixel_for_nn", "half_pixel"])
def test_maxima(aligned: str, dynamic: bool, core: Any, tmp_path: Path) -> None:
    builds: dict[str, Build] = {
        f"{ratio} {size} {scale}": lambda x, b, n, r=ratio, s=size, k=scale: ops(9).roi_align(
            x, b, n, *s, r, k, "max", aligned
        )
        for ratio, size, scale in half(dynamic, (0, 1, 2, 3), ((3, 2), (1, 1), (7, 7)), (0.5, 1.0))
    }
    path = tmp_path / "model.xml"
    assert check_all(builds, [IMAGES, BOXES, NUMBERS], core, path, dynamic=dynamic, static=[(1, 1)]) == {}


@pytest.mark.parametrize("dtype", [np.float16, F])
def test_maxima_of_negative_numbers(dtype: Any, core: Any, tmp_path: Path) -> None:
    """OpenVINO's kernels begin with 0."""
    builds = {"max": lambda x, b, n: ops(3).roi_align(x, b, n, 2, 2, 2, 0.5, "max")}
    inputs = [-abs(IMAGES).astype(dtype), BOXES.astype(dtype), NUMBERS]
    assert check_all(builds, inputs, core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize("ratio", [0, 2])
def test_no_regions(ratio: int, tmp_path: Path) -> None:
    """OpenVINO's plugin fails."""
    case = Case("", lambda x, b, n: ops(3).roi_align(x, b, n, 2, 4, ratio, 0.5, "max"), IMAGES, BOXES, NUMBERS,
                dynamic=True, static=[(1, 1)])  # fmt: skip
    session = InferenceSession(convert(case.save(tmp_path)))
    (made,) = session.run(None, {"p0": IMAGES, "p1": BOXES[:0], "p2": NUMBERS[:0]})
    assert made.shape == (0, 3, 2, 4)


@pytest.mark.parametrize("number", [-1, 2])
def test_images_that_are_not_there(number: int, tmp_path: Path) -> None:
    case = Case("", lambda x, b, n: ops(3).roi_align(x, b, n, 2, 2, 2, 0.5, "max"), IMAGES, BOXES[:2], NUMBERS[:2])
    session = InferenceSession(convert(case.save(tmp_path)))
    with pytest.raises(Exception, match=r"out of .*bounds"):
        session.run(None, {"p0": IMAGES, "p1": BOXES[:2], "p2": np.int32([0, number])})


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("clockwise", [True, False])
def test_rotated_regions(clockwise: bool, dynamic: bool, core: Any, tmp_path: Path) -> None:
    boxes = np.concatenate(
        [RNG.uniform(0, 12, (9, 2)), RNG.uniform(0.1, 12, (9, 2)), RNG.uniform(-4, 4, (9, 1))], 1
    ).astype(F)
    builds: dict[str, Build] = {
        f"{ratio} {size} {scale}": lambda x, b, n, r=ratio, s=size, k=scale: ops(15).roi_align_rotated(
            x, b, n, *s, r, k, clockwise
        )
        for ratio, size, scale in half(dynamic, (0, 1, 3), ((3, 2), (1, 1)), (0.5, 1.0))
    }
    inputs = [IMAGES, boxes, NUMBERS[:9]]
    assert check_all(builds, inputs, core, tmp_path / "model.xml", dynamic=dynamic) == {}


def numbered(boxes: Any) -> Any:
    return np.concatenate([NUMBERS[: len(boxes), None].astype(F), boxes], 1)


POOLINGS: dict[str, Build] = {
    "average": lambda x, b: ops(1).psroi_pooling(x, b, 2, 2, 0.5, 1, 1, "average"),
    "bilinear": lambda x, b: ops(1).psroi_pooling(x, b, 2, 2, 1.0, 2, 2, "bilinear"),
    "deformable": lambda x, b: ops(1).deformable_psroi_pooling(x, b, 2, 0.5, 2),
    "whole max": lambda x, b: ops(2).roi_pooling(x, b, [2, 2], 0.5, "max"),
    "whole bilinear": lambda x, b: ops(2).roi_pooling(x, b, [2, 2], 1.0, "bilinear"),
}


def boxes_for(mode: str, count: int | None = None) -> Any:
    """Boxes in pixels, or for points in parts of the image."""
    return numbered(BOXES[:count] / F(20 if "bilinear" in mode else 1))


@pytest.mark.parametrize("method", ["max", "bilinear"])
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (1, 4), (9, 1)], ids=str)
def test_whole_regions(size: tuple[int, int], method: str, core: Any, tmp_path: Path) -> None:
    """ROIPooling, whose results beyond the image are 0."""
    builds = {
        f"{scale}": lambda x, b, k=scale: ops(2).roi_pooling(x, b, list(size), k, method) for scale in (0.5, 1.0, 0.3)
    }
    parts = F([[0, 0, 1, 1], [0.3, 0.2, 0.3, 0.9], [-0.1, 0.5, 0.5, 1.1], [0.9, 1, 0.1, 0], [1, 1, 1, 1]])
    boxes = [BOXES] if method == "max" else [boxes_for(method)[:, 1:], parts]
    for given in boxes:
        assert check_all(builds, [IMAGES, numbered(given)], core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize("scale", [0.5, 1.0, 0.0625])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_means_of_windows(count: int, scale: float, core: Any, tmp_path: Path) -> None:
    images = RNG.normal(size=(2, 2 * count**2, 9, 7)).astype(F)
    builds = {"average": lambda x, b: ops(1).psroi_pooling(x, b, 2, count, scale, 1, 1, "average")}
    boxes = np.concatenate([BOXES, [[0.5, 1.5, 2.5, 3.5], [-0.5, -1.5, 2.5, 4.49]]]).astype(F)
    boxes = np.concatenate([RNG.integers(0, 2, (len(boxes), 1)), boxes], 1).astype(F)
    assert check_all(builds, [images, boxes], core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize("bins", [(1, 1), (2, 3)])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_means_of_points(count: int, bins: tuple[int, int], core: Any, tmp_path: Path) -> None:
    images = RNG.normal(size=(2, 2 * bins[0] * bins[1], 9, 7)).astype(F)
    builds = {
        f"{scale}": lambda x, b, k=scale: ops(1).psroi_pooling(x, b, 2, count, k, *bins, "bilinear")
        for scale in (1.0, 0.75)
    }
    for size in (14, 20):
        inputs = [images, numbered(BOXES / F(size))]
        assert check_all(builds, inputs, core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize("mode", POOLINGS)
def test_dynamic_shapes(mode: str, core: Any, tmp_path: Path) -> None:
    """OpenVINO runs them for static shapes only."""
    images = RNG.normal(size=(2, 8, 9, 7)).astype(F)
    boxes = boxes_for(mode)
    cases = [Case("", POOLINGS[mode], images, boxes, dynamic=dynamic) for dynamic in (False, True)]
    path = cases[0].save(tmp_path)
    (want,) = core.compile_model(core.read_model(path), "CPU")([images, boxes]).values()
    session = InferenceSession(convert(cases[1].save(tmp_path)))
    (have,) = session.run(None, {"p0": images, "p1": boxes})
    np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-5)
    (none,) = session.run(None, {"p0": images, "p1": boxes[:0]})
    assert none.shape == (0, *want.shape[1:])


@pytest.mark.parametrize("mode", POOLINGS)
def test_boxes_behind_the_last(mode: str, core: Any, tmp_path: Path) -> None:
    """A box of the image -1 ends them."""
    images = RNG.normal(size=(2, 8, 9, 7)).astype(F)
    boxes = boxes_for(mode, 5)
    boxes[3, 0] = -1
    assert check_all({mode: POOLINGS[mode]}, [images, boxes], core, tmp_path / "model.xml") == {}


@pytest.mark.pairwise
@pytest.mark.parametrize("part", [1, 2, 3])
@pytest.mark.parametrize("classes", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_moved_points(count: int, classes: int, part: int, core: Any, tmp_path: Path) -> None:
    images, boxes = RNG.normal(size=(2, 4 * count**2, 9, 7)).astype(F), numbered(BOXES)
    inputs = [images, boxes, RNG.normal(size=(len(boxes), 2 * classes, part, part)).astype(F)][: 3 if classes else 2]
    builds: dict[str, Build] = {}
    for scale, bins in half(count // 2 + classes + part, (0.5, 0.0625), ((1, 1), (2, 3))):
        options = {"spatial_bins_x": bins[0], "spatial_bins_y": bins[1], "trans_std": 0.3, "part_size": part}
        builds[f"{scale} {bins}"] = lambda x, b, *moves, k=scale, a=options: ops(1).deformable_psroi_pooling(
            x, b, 4, k, count, offsets=moves[0] if moves else None, **a
        )
    assert check_all(builds, inputs, core, tmp_path / "model.xml") == {}


def test_channels_that_do_not_fit(tmp_path: Path) -> None:
    from support.openvino_irs import IrBuilder

    net = IrBuilder()
    given = [net.parameter("x", "f32", [1, 9, 4, 4]), net.parameter("b", "f32", [2, 5])]
    options = {"output_dim": 2, "group_size": 2, "spatial_scale": 1.0, "mode": "average"}
    net.result(net.layer("PSROIPooling", "opset1", given, [("f32", [2, 2, 2, 2])], options))
    with pytest.raises(ConversionError, match="2 channels of 2 x 2 groups"):
        convert(net.save(tmp_path))
