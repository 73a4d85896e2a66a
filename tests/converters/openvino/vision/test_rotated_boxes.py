"""NMSRotated against OpenVINO, with boxes that are equal, touch, or have no area."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, check, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

F = np.float32
#: The numbers of a box, which OpenVINO demands of the model.
NUMBERS = ((0, 2),)


def random_boxes(rng: Any, images: int, count: int) -> Any:
    """Boxes of any size; some are equal, some have no area or a negative one, and of some the corners are whole."""
    size = rng.choice([0.05, 1, 10, 300])
    places, sizes = rng.uniform(0, 1, (images, count, 2)), rng.uniform(0.1, 0.6, (images, count, 2))
    angles = rng.normal(size=(images, count, 1)) * rng.choice([0, 1, 3])
    boxes = np.concatenate([places * size, sizes * size, angles], -1)
    boxes[:, count // 2] = boxes[:, 0]
    boxes[:, count // 3, 2] *= rng.choice([-1, 0, 1])
    return np.round(boxes) if rng.integers(4) == 0 else boxes


@pytest.mark.parametrize("seed", range(40))
def test_random(seed: int, core: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    images, classes, count = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 20))
    dtype = rng.choice([F, F, np.float16])
    scores = rng.choice(np.linspace(0, 1, int(rng.choice([5, 1000]))), (images, classes, count)).astype(dtype)
    # At 1, OpenVINO drops some equal boxes.
    limits = [np.array(rng.choice([1, 2, 5, 100])), dtype(rng.choice([-0.1, 0, 0.1, 0.5, 0.9])), dtype(-1)]
    options = {
        "sort_result_descending": bool(rng.integers(2)),
        "clockwise": bool(rng.integers(2)),
        "output_type": str(rng.choice(["i64", "i32"])),
    }
    boxes = random_boxes(rng, images, count).astype(dtype)
    if rng.integers(2):
        inputs, given = [boxes, scores, *limits], []
    else:
        inputs, given = [boxes, scores], limits
    tested = Case("", lambda *read: ops(13).nms_rotated(*read, *given, **options), *inputs,
                  dynamic=bool(rng.integers(2)), static=NUMBERS)  # fmt: skip
    check(tested, core, tested.save(tmp_path))


def chosen(boxes: Any, limit: float, folder: Path) -> list[int]:
    """The boxes that are kept, the first of which have the highest scores."""
    inputs = np.array([boxes], F), -np.arange(len(boxes), dtype=F)[None, None]
    path = Case("", lambda b, s: ops(13).nms_rotated(b, s, np.array(9), F(limit), F(-99)), *inputs).save(folder)
    found, _, count = InferenceSession(convert(path)).run(None, {"p0": inputs[0], "p1": inputs[1]})
    assert count == len(found)
    return [int(place) for place in found[:, 2]]


@pytest.mark.parametrize("angle", [0.0, 0.3, np.pi / 4, np.pi / 2, -2.0])
def test_what_touches_does_not_overlap(angle: float, tmp_path: Path) -> None:
    """At a limit of 0: two boxes side by side, and one above them."""
    x, y = np.cos(angle), np.sin(angle)
    boxes = [[0, 0, 2, 2, angle], [2 * x, 2 * y, 2, 2, angle], [-2 * y, 2 * x, 2, 2, angle], [0, 0, 1, 1, angle]]
    nearly = [[c * 1.001 for c in box[:2]] + box[2:] for box in boxes]
    assert chosen(nearly, 0, tmp_path) == [0, 1, 2]
    assert chosen(boxes, 1e-6, tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("angle", [0.0, 0.3, np.pi / 4, -2.0])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_limit_is_the_overlap(share: float, angle: float, tmp_path: Path) -> None:
    """Of a box and a part of it, and of a square and itself, turned by an eighth: two (square root of 2 - 1)."""
    part = [[1, 2, 3, 4, angle], [1, 2, 3 * share, 4, angle]]
    assert chosen(part, share + 1e-5, tmp_path) == [0, 1]
    assert chosen(part, share - 1e-5, tmp_path) == [0]
    octagon = 2 * (2**0.5 - 1)
    overlap = octagon / (2 - octagon)
    square = [[5, 5, 2, 2, angle], [5, 5, 2, 2, angle + np.pi / 4]]
    assert chosen(square, overlap + 1e-5, tmp_path) == [0, 1]
    assert chosen(square, overlap - 1e-5, tmp_path) == [0]


def test_no_boxes(tmp_path: Path) -> None:
    """Whose number OpenVINO does not initialize."""
    for shape in ((2, 0, 5), (0, 3, 5), (0, 0, 5)):
        inputs = np.zeros(shape, F), np.zeros((shape[0], 2, shape[1]), F)
        path = Case("", lambda b, s: ops(13).nms_rotated(b, s, np.array(9), F(0.5), F(0)), *inputs, dynamic=True,
                    static=NUMBERS).save(tmp_path)  # fmt: skip
        results = InferenceSession(convert(path)).run(None, {"p0": inputs[0], "p1": inputs[1]})
        assert [result.tolist() for result in results] == [[], [], [0]]
