"""Boxes of anchors that are an input, against OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_irs import IrBuilder
from support.openvino_models import check_all, ops

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

F = np.float32
Build = Callable[..., Any]
HEIGHT, WIDTH, ANCHORS = 4, 5, 3


def anchors(seed: int) -> Any:
    draw = np.random.default_rng(seed)
    corners = draw.uniform(-10, 50, (HEIGHT, WIDTH, ANCHORS, 2))
    return np.concatenate([corners, corners + draw.uniform(1, 30, corners.shape)], -1).astype(F)


def moves_and_scores(seed: int, count: int) -> tuple[Any, Any]:
    """No two scores are equal."""
    draw = np.random.default_rng(seed + 1)
    moves = draw.normal(size=(count, 4 * ANCHORS, HEIGHT, WIDTH)).astype(F) * F(0.6)
    moves[0, 2] = 9  # grows more than is allowed
    scores = draw.permutation(count * ANCHORS * HEIGHT * WIDTH).astype(F).reshape(count, ANCHORS, HEIGHT, WIDTH)
    return moves, scores / F(scores.size)


@pytest.mark.pairwise
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("info", [[[60, 70, 1]], [[60, 70, 2, 0.5], [40, 30, 1, 3]]], ids=["one", "two"])
def test_images(info: list[list[float]], normalized: bool, dynamic: bool, core: Any, tmp_path: Path) -> None:
    results = {"0 0": 0, "0 1": 1, "0 2": 2, "1 2": 2}  # only the last one has the type of the numbers of boxes
    for seed, (threshold, before, after, least) in enumerate(
        ((0.5, 1000, 100, 1.0), (0.7, 20, 5, 8.0), (0.2, 1000, 3, 0.0), (0.0, 30, 30, 4.0), (1.0, 30, 30, 4.0))
    ):
        inputs = [np.array(info, F), anchors(seed), *moves_and_scores(seed, len(info))]
        builds: dict[str, Build] = {
            name: lambda *x, n=n, a=(least, threshold, before, after), kind="i64" if name[0] == "0" else "i32": (
                ops(8).reshape(ops(9).generate_proposals(*x, *a, normalized=normalized, roi_num_type=kind).output(n),
                               [-1], False)
            )
            for name, n in results.items()
        }  # fmt: skip
        static = [(0, 1), (1, 3)]
        path = tmp_path / "model.xml"
        assert check_all(builds, inputs, core, path, dynamic=dynamic, static=static) == {}


def test_images_without_boxes(core: Any, tmp_path: Path) -> None:
    inputs = [F([[60, 70, 1], [60, 70, 1]]), anchors(0), *moves_and_scores(0, 2)]
    builds = {"counts": lambda *x: ops(1).relu(ops(9).generate_proposals(*x, 900.0, 0.5, 20, 5).output(2))}
    assert check_all(builds, inputs, core, tmp_path / "model.xml") == {}


def test_eta_is_refused(tmp_path: Path) -> None:
    net = IrBuilder()
    shapes = ([1, 3], [4, 5, 3, 4], [1, 12, 4, 5], [1, 3, 4, 5])
    given = [net.parameter(f"p{k}", "f32", shape) for k, shape in enumerate(shapes)]
    options = {"min_size": 1, "nms_threshold": 0.5, "pre_nms_count": 20, "post_nms_count": 5, "nms_eta": 0.5}
    net.result(
        net.layer("GenerateProposals", "opset9", given, [("f32", [-1, 4]), ("f32", [-1]), ("i64", [1])], options)
    )
    with pytest.raises(ConversionError, match=r"nms_eta = 0\.5"):
        convert(net.save(tmp_path))


@pytest.mark.parametrize("dynamic", [False, True])
def test_one_image(dynamic: bool, core: Any, tmp_path: Path) -> None:
    """Behind the last box are zeros."""
    from openvino.utils.node_factory import NodeFactory

    for seed, (threshold, before, after, least) in enumerate(
        # Boxes that are too small, whose scores are equal, are behind those that are taken.
        ((0.5, 1000, 100, 1.0), (0.7, 20, 5, 8.0), (0.2, 1000, 3, 0.0), (0.7, 30, 100, 1.0), (0.5, 30, 4, 20.0))
    ):
        moves, scores = moves_and_scores(seed, 1)
        inputs = [F([60, 70, 2]), anchors(seed).reshape(-1, 4), moves[0], scores[0]]
        options = {"min_size": least, "nms_threshold": threshold, "pre_nms_count": before, "post_nms_count": after}
        builds: dict[str, Build] = {
            f"{n}": lambda *x, n=n, a=options: ops(8).reshape(
                NodeFactory("opset6")
                .create("ExperimentalDetectronGenerateProposalsSingleImage", [t.output(0) for t in x], a)
                .output(n),
                [-1],
                False,
            )
            for n in (0, 1)
        }
        static = [(0, 0), (1, 1)]
        assert check_all(builds, inputs, core, tmp_path / "model.xml", dynamic=dynamic, static=static) == {}
