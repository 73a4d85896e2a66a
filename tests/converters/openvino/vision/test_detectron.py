"""The operators of Detectron against OpenVINO, whose Python API builds them by their names."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_irs import IrBuilder
from support.openvino_models import Case, c, check, check_all, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

F = np.float32
RNG = np.random.default_rng(7)


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
    """Behind the last box, OpenVINO's rows are not initialized, and are not compared."""
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


@pytest.mark.pairwise
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


def random_detections(rng: Any) -> tuple[dict[str, Any], list[Any]]:
    """The attributes and inputs of a DetectionOutput with boxes of no area, equal scores, and any number of classes."""
    count, classes = int(rng.integers(1, 14)), int(rng.integers(2, 6))
    boxes = rng.uniform(0, 30, (count, 4)).astype(F)
    boxes[:, 2:] = boxes[:, :2] + rng.uniform(-2, 14, (count, 2))
    chances = rng.choice(np.linspace(0, 1, int(rng.choice([6, 1000]))), (count, classes)).astype(F)
    if chances.size > len(set(chances.flat)):  # of equal scores of one box, OpenVINO takes any class
        chances = np.repeat(chances[:, :1], classes, 1) + F(0.001) * np.arange(classes, dtype=F)
    attributes = {
        "score_threshold": float(rng.choice([0, 0.1, 0.4])),
        "nms_threshold": float(rng.choice([0, 0.1, 0.3, 0.5, 0.9])),
        "max_delta_log_wh": float(rng.choice([4.135, 0.3])),
        "num_classes": classes,
        "post_nms_count": int(rng.choice([-1, 0, 1, 2, 100])),
        "max_detections_per_image": int(rng.integers(1, 25)),
        "class_agnostic_box_regression": bool(rng.integers(2)),
        "deltas_weights": [10.0, 10.0, 5.0, 5.0] if rng.integers(2) else [1.0, 2.0, 1.0, 0.5],
    }
    moves = rng.normal(size=(count, 4 * classes)).astype(F) * F(0.7)
    return attributes, [boxes, moves, chances, F([[20, 30, 1]])]


@pytest.mark.parametrize("seed", range(40))
def test_detections(seed: int, core: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    attributes, inputs = random_detections(rng)
    tested = Case("", lambda *given: detectron("DetectionOutput", given, attributes), *inputs, dynamic=bool(seed % 2))
    check(tested, core, tested.save(tmp_path))


def test_no_detections(tmp_path: Path) -> None:
    """Of no boxes, for which OpenVINO's numbers are not initialized, and of one that are not likely."""
    attributes, _ = random_detections(RNG)
    attributes |= {"num_classes": 2, "max_detections_per_image": 3, "score_threshold": 0.5}
    for count in (0, 2):
        inputs = [F([[0, 0, 9, 9]] * count).reshape(count, 4), np.zeros((count, 8), F), np.full((count, 2), 0.5, F)]
        tested = Case("", lambda *given: detectron("DetectionOutput", given, attributes), *inputs, F([[9, 9, 1]]))
        results = InferenceSession(convert(tested.save(tmp_path))).run(
            None, {f"p{k}": x for k, x in enumerate(tested.inputs)}
        )
        assert [(result.shape, result.any()) for result in results] == [((3, 4), False), ((3,), False), ((3,), False)]


@pytest.mark.parametrize(
    ("key", "value"),
    [("score_threshold", -0.1), ("max_detections_per_image", 0), ("post_nms_count", -2), ("deltas_weights", [1.0] * 3)],
)
def test_detections_that_are_refused(key: str, value: Any, tmp_path: Path) -> None:
    net = IrBuilder()
    attributes, inputs = random_detections(RNG)
    sources = [net.parameter(f"p{k}", "f32", list(x.shape)) for k, x in enumerate(inputs)]
    data = {name: ",".join(map(str, x)) if isinstance(x, list) else str(x) for name, x in
            {**attributes, key: value}.items()}  # fmt: skip
    made = net.layer("ExperimentalDetectronDetectionOutput", "opset6", sources, [("f32", [1, 4])], data)
    net.result(made)
    with pytest.raises(ConversionError, match=f"{key} = "):
        convert(net.save(tmp_path))
