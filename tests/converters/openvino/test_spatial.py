"""Operators on images and what else moves or reduces elements, each over its attributes, against OpenVINO."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_irs import IrBuilder
from support.openvino_models import Case, c, check_all, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

ov = pytest.importorskip("openvino")

F = np.float32
RNG = np.random.default_rng(0)
Build = Callable[..., Any]


@pytest.mark.parametrize("dynamic", [False, True])
def test_space_and_batch(dynamic: bool, core: Any, tmp_path: Path) -> None:
    image = RNG.normal(size=(2, 3, 4, 6)).astype(F)
    batches = RNG.normal(size=(12, 2, 3, 4)).astype(F)
    builds: dict[str, Build] = {}
    for blocks, begins, ends in (
        ([1, 1, 2, 3], [0, 0, 0, 0], [0, 0, 0, 0]),
        ([1, 3, 2, 1], [0, 0, 1, 0], [0, 0, 1, 0]),
        ([1, 2, 3, 4], [0, 1, 0, 2], [0, 0, 2, 0]),
    ):
        builds[f"to batch {blocks}"] = lambda x, y, a=(blocks, begins, ends): ops(2).space_to_batch(x, *map(c, a))
    for blocks, begins, ends in (
        ([1, 1, 2, 3], [0, 0, 0, 0], [0, 0, 0, 0]),
        ([1, 3, 2, 1], [0, 1, 0, 2], [0, 2, 1, 0]),
        ([1, 1, 4, 3], [0, 0, 3, 1], [0, 1, 0, 5]),
    ):
        builds[f"to space {blocks}"] = lambda x, y, a=(blocks, begins, ends): ops(2).batch_to_space(y, *map(c, a))
    assert check_all(builds, [image, batches], core, tmp_path / "model.xml", dynamic=dynamic) == {}


@pytest.mark.parametrize("dynamic", [False, True])
def test_patches(dynamic: bool, core: Any, tmp_path: Path) -> None:
    image = RNG.normal(size=(2, 3, 7, 9)).astype(F)
    builds: dict[str, Build] = {
        f"{auto} {size} {stride} {rate}": lambda x, a=(size, stride, rate, auto): ops(3).extract_image_patches(x, *a)
        for auto, size, stride, rate in itertools.product(
            ("valid", "same_upper", "same_lower"), ([3, 2], [1, 4]), ([1, 1], [2, 3], [5, 9]), ([1, 1], [2, 1], [3, 2])
        )
    }
    assert check_all(builds, [image], core, tmp_path / "model.xml", dynamic=dynamic) == {}


@pytest.mark.parametrize("dynamic", [False, True])
def test_regions(dynamic: bool, core: Any, tmp_path: Path) -> None:
    image = RNG.normal(size=(2, 24, 3, 5)).astype(F)
    builds: dict[str, Build] = {
        f"{softmax} {axes}": lambda x, s=softmax, a=axes: ops(1).region_yolo(
            x, 4, 3, 3 if s else 9, do_softmax=s, mask=[1, 4, 5], axis=a[0], end_axis=a[1]
        )
        for softmax, axes in itertools.product((True, False), ((1, 3), (1, 1), (0, -1), (2, 3), (-3, 2)))
    }
    assert check_all(builds, [image], core, tmp_path / "model.xml", dynamic=dynamic) == {}


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((1, 6, 3), "3 regions of 1 coordinates and 6 classes"), ((4, 2, 3), "24 channels for 3 regions of 7 numbers")],
)
def test_regions_that_are_refused(numbers: tuple[int, int, int], words: str, tmp_path: Path) -> None:
    coordinates, classes, regions = numbers

    def region(x: Any) -> Any:
        return ops(1).region_yolo(x, coordinates, classes, regions, do_softmax=True, mask=[0], axis=1, end_axis=3)

    tested = Case("", region, np.ones((1, 24, 3, 5), F))
    with pytest.raises(ConversionError, match=words):
        convert(tested.save(tmp_path))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_reorganised_images(stride: int, dynamic: bool, core: Any, tmp_path: Path) -> None:
    image = RNG.normal(size=(2, 2 * stride**2, 2 * stride, 4 * stride)).astype(F)
    builds = {"reorg": lambda x: ops(2).reorg_yolo(x, [stride])}
    assert check_all(builds, [image], core, tmp_path / "model.xml", dynamic=dynamic) == {}


def test_columns_to_images(core: Any, tmp_path: Path) -> None:
    size, kernel = [6, 5], [2, 3]
    for batch in ((), (2,)):
        for strides, dilations, pads in itertools.product(([1, 1], [2, 1]), ([1, 1], [1, 2]), ([0, 0], [1, 0])):
            rows, columns = ((n + 2 * p - d * (k - 1) - 1) // s + 1
                             for n, p, d, k, s in zip(size, pads, dilations, kernel, strides, strict=True))  # fmt: skip
            data = RNG.normal(size=(*batch, 3 * 6, rows * columns)).astype(F)
            given = (c(size), c(kernel), strides, dilations, pads, pads)
            builds = {"col2im": lambda x, given=given: ops(15).col2im(x, *given)}
            assert check_all(builds, [data], core, tmp_path / "model.xml") == {}


def test_grn(core: Any, tmp_path: Path) -> None:
    builds = {f"grn {bias}": lambda x, b=bias: ops(1).grn(x, b) for bias in (1e-5, 0.3)}
    assert check_all(builds, [RNG.normal(size=(2, 3, 4, 5)).astype(F)], core, tmp_path / "model.xml") == {}


def test_interpolate_of_the_first_operator_set(core: Any, tmp_path: Path) -> None:
    builds: dict[str, Build] = {}
    for mode, align, size in itertools.product(("nearest", "linear", "cubic"), (True, False), ([7, 6], [3, 9], [2, 2])):
        attributes = {"axes": [2, 3], "mode": mode, "align_corners": align, "antialias": False, "pads_begin": [0],
                      "pads_end": [0]}  # fmt: skip
        builds[f"{mode} {align} {size}"] = lambda x, s=size, a=attributes: ops(1).interpolate(x, c(s), a)
    for numbers, kind in (([3, 9], "sizes"), ([0.5, 1.7], "scales")):
        builds[f"simple {kind}"] = lambda x, n=numbers, k=kind: ops(11).interpolate(
            x, c(n, F if k == "scales" else np.int64), "nearest", k, nearest_mode="simple", axes=c([2, 3])
        )
    assert check_all(builds, [RNG.normal(size=(1, 2, 4, 5)).astype(F)], core, tmp_path / "model.xml") == {}


def test_means_by_index(core: Any, tmp_path: Path) -> None:
    for dtype, numbers in ((F, 1.5), (np.int32, 1)):
        least = -9 if dtype == F else 0  # OpenVINO rounds means of integers toward zero, its specification down
        data = (RNG.integers(least, 9, (3, 4)) * numbers).astype(dtype)
        updates = (RNG.integers(least, 9, (2, 4)) * numbers).astype(dtype)
        builds = {
            f"{axis} {counted}": lambda x, u, a=axis, n=counted: ops(12).scatter_elements_update(
                x, c([[0, 2, 2, 1], [0, -1, 1, 1]]), u, c(a), "mean", n)
            for axis, counted in itertools.product((0, 1), (True, False))
        }  # fmt: skip
        assert check_all(builds, [data, updates], core, tmp_path / "model.xml") == {}


def test_suppression_with_thresholds_that_are_inputs(core: Any, tmp_path: Path) -> None:
    """Also at the threshold, where OpenVINO drops a box and ONNX keeps it, and at 0."""
    corners = RNG.integers(0, 6, size=(1, 20, 2)).astype(F)
    boxes = np.concatenate([corners, corners + RNG.integers(1, 4, size=(1, 20, 2)).astype(F)], -1)
    scores = RNG.permutation(40).reshape(1, 2, 20).astype(F) / 40
    builds = {"nms": lambda b, s, n, o, t: ops(9).non_max_suppression(b, s, n, o, t, c(0, F)).output(0).get_node()}
    for overlap in (0, 0.2, 0.25, 1 / 3, 0.5, 1):
        inputs = [boxes, scores, np.int64(4), F(overlap), F(0.1)]
        assert check_all(builds, inputs, core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize("excluded", [True, False])
@pytest.mark.parametrize("auto", ["explicit", "valid", "same_upper"])
@pytest.mark.parametrize("dilations", [(2, 1), (2, 3)], ids=str)
def test_averages_with_dilations(
    dilations: tuple[int, int], auto: str, excluded: bool, core: Any, tmp_path: Path
) -> None:
    """From a handwritten file: OpenVINO's Python API ends the process."""
    x = RNG.normal(size=(1, 2, 7, 8)).astype(F)
    pads = {"explicit": (1, 1), "valid": (0, 0)}.get(auto, (dilations[0], dilations[1]))
    rows, columns = ((n + p - d - 1) // s + 1
                     for n, p, d, s in zip((7, 8), pads, dilations, (1, 2), strict=True))  # fmt: skip
    if auto == "same_upper":
        rows, columns = 7, 4
    net = IrBuilder()
    given = net.parameter("p0", "f32", list(x.shape))
    attributes = {"strides": "1, 2", "dilations": f"{dilations[0]}, {dilations[1]}", "pads_begin": "1, 0",
                  "pads_end": "0, 1", "kernel": "2, 2", "exclude-pad": str(excluded).lower(),
                  "rounding_type": "floor", "auto_pad": auto}  # fmt: skip
    net.result(net.layer("AvgPool", "opset16", [given], [("f32", [1, 2, rows, columns])], attributes))
    path = net.save(tmp_path)
    (want,) = core.compile_model(core.read_model(path), "CPU")([x]).values()
    (have,) = InferenceSession(convert(path)).run(None, {"p0": x})
    np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
