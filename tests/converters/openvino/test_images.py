"""Windows over images, resizing, and the operators of detectors, each against OpenVINO's own results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, c, check, ops

from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

F = np.float32
RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(1, 2, 7, 6)).astype(F)
KERNEL = RNG.normal(size=(3, 2, 2, 3)).astype(F)
BACK = RNG.normal(size=(2, 3, 3, 3)).astype(F)


@pytest.fixture
def agrees(core: Any, tmp_path: Path) -> Any:
    """`agrees(build, *inputs)` asserts that OpenVINO and the converted model give the same results."""

    def agrees(build: Any, *inputs: Any, dynamic: bool = False) -> None:
        tested = Case("", build, *inputs, dynamic=dynamic)
        check(tested, core, tested.save(tmp_path))

    return agrees


@pytest.mark.parametrize("auto", ["same_upper", "same_lower"])
@pytest.mark.parametrize("strides", [[1, 1], [2, 3]])
def test_auto_pad_with_dilations(agrees: Any, auto: str, strides: list[int]) -> None:
    def convolution(x: Any) -> Any:
        return ops(1).convolution(x, c(KERNEL, F), strides, [0, 0], [0, 0], [2, 3], auto)

    def pool(x: Any) -> Any:
        return ops(14).max_pool(x, strides, [2, 2], [0, 0], [0, 0], [2, 3], "floor", auto)

    agrees(convolution, IMAGE)
    agrees(pool, IMAGE)
    if strides == [1, 1]:  # else the paddings depend on the size of the image
        agrees(convolution, IMAGE, dynamic=True)


@pytest.mark.parametrize("end", [0, 1])
def test_windows_that_may_begin_in_the_padding(agrees: Any, tmp_path: Path, end: int) -> None:
    """Images of unknown size: windows of 2 with stride 2 do so for some size only if there is padding at the end."""

    def pool(x: Any) -> Any:
        return ops(14).max_pool(x, [2, 2], [1, 1], [0, 0], [end, end], [2, 2], "ceil")

    agrees(pool, IMAGE, dynamic=True)
    padded = "Pad" in {
        node.op_type for node in convert(Case("MaxPool", pool, IMAGE, dynamic=True).save(tmp_path)).graph.node
    }
    assert padded == bool(end)


@pytest.mark.parametrize("auto", ["explicit", "same_upper", "same_lower", "valid"])
@pytest.mark.parametrize("size", [None, [6, 6], [13, 11], [14, 20]])
@pytest.mark.parametrize("extra", [[0, 0], [1, 1]])
def test_deconvolutions(agrees: Any, auto: str, size: list[int] | None, extra: list[int]) -> None:
    """Results are cut off at both ends or extended by zeros; also with strides of 1 and output_padding."""
    shape = None if size is None else c(size)
    for strides, dilations in (([2, 3], [1, 2]), ([1, 1], [1, 1])):
        agrees(
            lambda x, s=strides, d=dilations: ops(1).convolution_backprop_data(
                x, c(BACK, F), s, shape, [1, 1], [1, 0], d, auto, extra
            ),
            IMAGE,
        )


@pytest.mark.parametrize("auto", ["explicit", "same_upper", "same_lower", "valid"])
@pytest.mark.parametrize("size", [[6, 6], [13, 11], [14, 20]])
@pytest.mark.parametrize("dynamic", [False, True])
def test_deconvolutions_to_the_size_of_another_image(agrees: Any, auto: str, size: list[int], dynamic: bool) -> None:
    """Keras' transposed convolutions compute their output shape. If no size is known, so does the converted model."""

    def build(x: Any, like: Any) -> Any:
        shape = ops(8).slice(ops(3).shape_of(like), c([2]), c([4]), c([1]))
        return ops(1).convolution_backprop_data(x, c(BACK, F), [2, 3], shape, [1, 1], [1, 0], [1, 2], auto)

    agrees(build, IMAGE, np.zeros((1, 1, *size), F), dynamic=dynamic)


@pytest.mark.parametrize("size", [[14, 12], [10, 9], [3, 4]])
def test_nearest_as_tensorflow_resizes(agrees: Any, size: list[int]) -> None:
    agrees(lambda x: ops(11).interpolate(x, c(size), "nearest", "sizes", None, None, "tf_half_pixel_for_nn", "floor",
                                         axes=c([2, 3])), IMAGE)  # fmt: skip


def test_adaptive_maximum(agrees: Any) -> None:
    agrees(lambda x: ops(8).adaptive_max_pool(x, c([7, 2]), "i32"), IMAGE)


def test_a_depthwise_convolution_is_one_node(tmp_path: Path) -> None:
    """The kernel with one channel per group is put into ONNX's form at conversion."""
    kernel = c(RNG.normal(size=(2, 1, 1, 3, 3)), F)
    tested = Case("", lambda x: ops(1).group_convolution(x, kernel, [1, 1], [0, 0], [0, 0], [1, 1]), IMAGE)
    assert [node.op_type for node in convert(tested.save(tmp_path)).graph.node] == ["Conv"]


def test_outputs_that_nothing_reads_are_not_made(tmp_path: Path) -> None:
    """torch's models have poolings with an unused output of positions."""

    class Values(Case):
        def __init__(self) -> None:
            super().__init__("", lambda x: ops(1).relu(ops(14).max_pool(
                x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], axis=2).output(0)), IMAGE)  # fmt: skip

    model = convert(Values().save(tmp_path))
    assert [(node.op_type, len(node.output)) for node in model.graph.node] == [("MaxPool", 1), ("Relu", 1)]


CORNERS = RNG.uniform(0, 10, size=(2, 20, 2)).astype(F)
BOXES = np.concatenate([CORNERS, CORNERS + RNG.uniform(1, 6, size=(2, 20, 2)).astype(F)], -1)
SCORES = RNG.uniform(0, 1, size=(2, 3, 20)).astype(F)


@pytest.mark.parametrize("version", [5, 9])
@pytest.mark.parametrize("encoding", ["corner", "center"])
@pytest.mark.parametrize("descending", [True, False])
def test_suppression(agrees: Any, version: int, encoding: str, descending: bool) -> None:
    for most, overlap, least in ((3, 0.3, 0.1), (20, 0.5, 0), (5, 0, 0)):
        limits = (c(most), c(overlap, F), c(least, F), c(0, F))
        agrees(lambda b, s, t=limits: ops(version).non_max_suppression(b, s, *t, encoding, descending), BOXES, SCORES)


def test_suppression_at_the_threshold(agrees: Any) -> None:
    """OpenVINO drops a box whose overlap equals the threshold, ONNX keeps it; these two overlap by a half."""
    agrees(lambda b, s: ops(9).non_max_suppression(b, s, c(4), c(0.5, F), c(0.5, F)),
           F([[[0, 0, 2, 2], [0, 0, 2, 1], [5, 5, 6, 6]]]), F([[[0.9, 0.8, 0.5]]]))  # fmt: skip


@pytest.mark.parametrize("aligned", ["asymmetric", "half_pixel_for_nn", "half_pixel"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions(agrees: Any, aligned: str, ratio: int) -> None:
    regions, places = F([[1, 1, 8, 7], [0, 0, 3, 3], [2.5, 3.3, 2.6, 3.4]]), np.int32([0, 0, 0])
    agrees(lambda x, r, p: ops(9).roi_align(x, r, p, 3, 2, ratio, 0.5, "avg", aligned), IMAGE, regions, places)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_grids(agrees: Any, mode: str, padding: str, align: bool) -> None:
    grid = RNG.uniform(-1.3, 1.3, size=(1, 4, 5, 2)).astype(F)
    attributes = {"align_corners": align, "mode": mode, "padding_mode": padding}
    agrees(lambda x, g: ops(9).grid_sample(x, g, attributes), IMAGE, grid)


def test_pooled_boxes(agrees: Any) -> None:
    """Boxes within the image, across its edge, and of one number."""
    boxes = np.array([[0, 0, 0, 5, 6], [0, 1, 2, 4, 5], [0, 2, 2, 2, 2], [0, 3, 3, 9, 9]], F)
    agrees(lambda x, b: ops(2).roi_pooling(x, b, [3, 2], 1.0, "max"), IMAGE, boxes)
