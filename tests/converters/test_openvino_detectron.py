"""The operators of Detectron against OpenVINO, whose Python API builds them by their names."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino_irs import IrBuilder
from openvino_models import Case, c, check_all, compiling_core, ops

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

F = np.float32
RNG = np.random.default_rng(7)


@pytest.fixture(scope="module")
def core() -> Any:
    return compiling_core()


def detectron(name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    from openvino.utils.node_factory import NodeFactory

    return NodeFactory("opset6").create(
        f"ExperimentalDetectron{name}", [source.output(0) for source in inputs], attributes
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("count", [5, 40])
def test_most_likely_boxes(count: int, dynamic: bool, core: Any, tmp_path: Path) -> None:
    boxes, chances = RNG.normal(size=(count, 4)).astype(F), RNG.permutation(count).astype(F) / count
    builds = {f"{n}": lambda b, c, n=n: detectron("TopKROIs", (b, c), {"max_rois": n}) for n in (1, 3, 5)}
    assert check_all(builds, [boxes, chances], core, tmp_path / "model.xml", dynamic=dynamic) == {}


@pytest.mark.parametrize("dynamic", [False, True])
def test_fewer_boxes_than_wanted(dynamic: bool, core: Any, tmp_path: Path) -> None:
    """Behind the last box, OpenVINO's rows are not initialised, and are not compared."""
    boxes, chances = RNG.normal(size=(4, 4)).astype(F), F([0.1, 0.4, 0.3, 0.2])
    builds = {
        "cut": lambda b, p: ops(8).slice(detectron("TopKROIs", (b, p), {"max_rois": 9}), c([0]), c([4]), c([1]), c([0]))
    }
    assert check_all(builds, [boxes, chances], core, tmp_path / "model.xml", dynamic=dynamic) == {}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("space", [(3, 5), (1, 1), (7, 2)])
def test_grids_of_boxes(space: tuple[int, int], dynamic: bool, core: Any, tmp_path: Path) -> None:
    priors = (RNG.normal(size=(3, 4)) * 30).astype(F)
    features, image = np.zeros((1, 2, *space), F), np.zeros((1, 3, 67, 45), F)
    builds = {}
    for flat, sized, (x, y) in itertools.product((True, False), (True, False), ((0.0, 0.0), (16.0, 8.5))):
        options = {"flatten": flat, "stride_x": x, "stride_y": y}
        options |= {"h": space[0], "w": space[1]} if sized else {}
        builds[f"{options}"] = lambda p, f, i, a=options: detectron("PriorGridGenerator", (p, f, i), a)
    assert check_all(builds, [priors, features, image], core, tmp_path / "model.xml", dynamic=dynamic) == {}


def test_a_grid_of_another_size_than_the_map(tmp_path: Path) -> None:
    def grid(*inputs: Any) -> Any:
        return detectron("PriorGridGenerator", inputs, {"w": 4, "h": 3})

    tested = Case("", grid, np.zeros((2, 4), F), np.zeros((1, 2, 3, 5), F), np.zeros((1, 3, 67, 45), F))
    with pytest.raises(ConversionError, match="w = 4"):
        convert(tested.save(tmp_path))


def test_a_grid_without_boxes(core: Any, tmp_path: Path) -> None:
    inputs = [np.zeros((0, 4), F), np.zeros((1, 2, 3, 5), F), np.zeros((1, 3, 67, 45), F)]
    builds = {"none": lambda p, f, i: detectron("PriorGridGenerator", (p, f, i), {"flatten": True})}
    assert check_all(builds, inputs, core, tmp_path / "model.xml", dynamic=True) == {}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_regions_of_a_pyramid(count: int, aligned: bool, dynamic: bool, core: Any, tmp_path: Path) -> None:
    """Of regions of all sizes, also of no area and beyond the images."""
    scales = [4, 8, 16, 32][:count]
    levels = [RNG.normal(size=(1, 3, 600 // scale, 500 // scale)).astype(F) for scale in scales]
    sides = np.exp2(RNG.uniform(2, 9.5, (14, 2)))
    corners = RNG.uniform(-30, 500, (14, 2))
    boxes = np.concatenate([corners, corners + sides], 1)
    whole = [[0, 0, side, side] for side in (112, 224, 448, 223.9999)]
    boxes = np.concatenate([boxes, whole, [[5, 5, 5, 9], [9, 9, 3, 12], [9, 9, 3, 2]]]).astype(F)
    builds = {
        f"{ratio} {size}": lambda b, *f, r=ratio, s=size: detectron(
            "ROIFeatureExtractor",
            (b, *f),
            {"output_size": s, "sampling_ratio": r, "pyramid_scales": scales, "aligned": aligned},
        )
        for ratio, size in ((0, 3), (2, 1), (3, 2))
    }
    inputs = [boxes, *levels]
    static = [(0, 1), *((k, axis) for k in range(1, count + 1) for axis in (0, 1))]
    assert check_all(builds, inputs, core, tmp_path / "model.xml", dynamic=dynamic, static=static) == {}


def test_scales_that_do_not_fit(tmp_path: Path) -> None:
    net = IrBuilder()
    given = [net.parameter("b", "f32", [2, 4]), net.parameter("x", "f32", [1, 3, 4, 4])]
    options = {"output_size": 2, "sampling_ratio": 2, "pyramid_scales": "4,8", "aligned": "false"}
    made = [("f32", [2, 3, 2, 2]), ("f32", [2, 4])]
    net.result(net.layer("ExperimentalDetectronROIFeatureExtractor", "opset6", given, made, options))
    with pytest.raises(ConversionError, match="1 levels, of the scales"):
        convert(net.save(tmp_path))
