"""MatrixNms, MulticlassNms and the first versions of NonMaxSuppression, with random attributes and equal scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.openvino_models import Case, check, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

F = np.float32
#: The numbers of a box, which OpenVINO demands of the model.
CORNERS = ((0, 2),)


def random_boxes(rng: Any, *shape: int, size: float) -> Any:
    """Boxes of which some are equal, and some have their corners the wrong way round."""
    corners = rng.uniform(0, 0.6, (*shape, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(-0.05, 0.5, corners.shape)], -1) * size
    boxes[..., shape[-1] // 2, :] = boxes[..., 0, :]
    return boxes.astype(F)


def random_scores(rng: Any, *shape: int) -> Any:
    """Scores of which some are equal, and none nearly so: OpenVINO's order of such is any."""
    return rng.choice(np.linspace(0, 1, int(rng.choice([5, 1000]))), shape).astype(F)


def random_attributes(rng: Any) -> dict[str, Any]:
    return {
        "sort_result_type": str(rng.choice(["none", "score", "classid"])),
        "sort_result_across_batch": bool(rng.integers(2)),
        "output_type": str(rng.choice(["i32", "i64"])),
        "score_threshold": float(rng.choice([0, 0.25, -1])),
        "nms_top_k": int(rng.choice([-1, 1, 4, 50])),
        "keep_top_k": int(rng.choice([-1, 1, 5, 50])),
        "background_class": int(rng.choice([-1, 0, 1])),
        "normalized": bool(rng.integers(2)),
    }


def random_sizes(rng: Any) -> tuple[int, int, int]:
    """Images, classes (OpenVINO's process may end if the background is the only one) and boxes."""
    return int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.integers(1, 4)) * 4


def multiclass(rng: Any, *, dynamic: bool) -> Case:
    attributes = random_attributes(rng) | {
        "iou_threshold": float(rng.choice([0.0, 0.3, 0.7, 1.0])),
        "nms_eta": float(rng.choice([1, 0.9, 0.5])),
    }
    if attributes["nms_eta"] < 1:  # then OpenVINO compares a box at the threshold with the last one only
        attributes["score_threshold"] += 0.01
    images, classes, count = random_sizes(rng)
    size = 1.0 if attributes["normalized"] else 20.0
    if rng.random() < 0.5:
        inputs = [random_boxes(rng, images, count, size=size), random_scores(rng, images, classes, count)]
    else:
        numbers = rng.multinomial(count, [1 / images] * images).astype(np.int32)
        inputs = [random_boxes(rng, classes, count, size=size), random_scores(rng, classes, count), numbers]
    return Case("", lambda *p: ops(9).multiclass_nms(*p, **attributes), *inputs, dynamic=dynamic, static=CORNERS)


def matrix(rng: Any, *, dynamic: bool) -> Case:
    attributes = random_attributes(rng) | {
        "decay_function": str(rng.choice(["linear", "gaussian"])),
        "gaussian_sigma": float(rng.choice([0.5, 2])),
        "post_threshold": float(rng.choice([0, 0.2])),
    }
    images, classes, count = random_sizes(rng)
    inputs = [
        random_boxes(rng, images, count, size=1.0 if attributes["normalized"] else 20.0),
        # Of equal scores of a class, OpenVINO takes either first.
        rng.permuted(np.tile(np.arange(1, count + 1) / count, (images, classes, 1)), axis=2).astype(F),
    ]
    return Case("", lambda *p: ops(8).matrix_nms(*p, **attributes), *inputs, dynamic=dynamic, static=CORNERS)


@pytest.mark.slow
@pytest.mark.parametrize("make", [multiclass, matrix])
@pytest.mark.parametrize("seed", range(2))
def test_random(core: Any, tmp_path: Path, make: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = 0
    for number in range(14):
        tested = make(rng, dynamic=number % 3 == 0)
        path = tested.save(tmp_path)
        compiled = core.compile_model(core.read_model(path), "CPU")
        wanted = list(compiled(tested.inputs).values())
        if not len(wanted[0]):  # then the numbers are not initialized in OpenVINO
            continue
        made = InferenceSession(convert(path)).run(None, {f"p{k}": value for k, value in enumerate(tested.inputs)})
        for want, got in zip(wanted, made, strict=True):
            assert (want.dtype, want.shape) == (got.dtype, got.shape)
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6, err_msg=str(tested.inputs))
        found += len(wanted[0])
    assert found > 50


@pytest.mark.parametrize(("version", "name"), [(9, "multiclass_nms"), (8, "matrix_nms")])
def test_of_no_boxes_there_are_none(tmp_path: Path, version: int, name: str) -> None:
    make = getattr(ops(version), name)
    tested = Case("", lambda b, s: make(b, s, score_threshold=2.0), np.ones((2, 5, 4), F), np.ones((2, 3, 5), F))
    rows, places, counts = InferenceSession(convert(tested.save(tmp_path))).run(
        None, dict(zip(("p0", "p1"), tested.inputs, strict=True))
    )
    assert (rows.shape, places.shape, counts.tolist()) == ((0, 6), (0, 1), [0, 0])


@pytest.mark.parametrize("key", ["nms_top_k", "keep_top_k"])
def test_a_limit_that_is_none(tmp_path: Path, key: str) -> None:
    tested = Case("", lambda b, s: ops(8).matrix_nms(b, s, **{key: -1}), np.ones((1, 5, 4), F), np.ones((1, 3, 5), F))
    path = tested.save(tmp_path)
    path.write_text(path.read_text("utf-8").replace(f'{key}="-1"', f'{key}="-2"'), "utf-8")
    with pytest.raises(ConversionError, match=f"{key} = -2"):
        convert(path)


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("least", [0.2, 0.9, 2.0])
def test_boxes_are_as_many_as_there_are(core: Any, tmp_path: Path, version: int, least: float) -> None:
    """The first versions of NonMaxSuppression declare a number of boxes that is not theirs; nor is what follows."""
    rng = np.random.default_rng(0)

    def gathered(boxes: Any, scores: Any) -> Any:
        chosen = ops(version).non_max_suppression(boxes, scores, np.array(3), np.array(0.4, F), np.array(least, F))
        rows = ops(8).gather(chosen, np.array([2]), np.array(1))
        return ops(8).gather(ops(1).reshape(boxes, np.array([-1, 4]), False), rows, np.array(0))

    tested = Case("", gathered, random_boxes(rng, 1, 8, size=1.0), rng.random((1, 3, 8)).astype(F))
    path = tested.save(tmp_path)
    if least < 2:
        check(tested, core, path)
    model = convert(path)
    (output,) = model.graph.output
    assert not output.type.tensor_type.shape.dim[0].HasField("dim_value")
    (made,) = InferenceSession(model).run(None, dict(zip(("p0", "p1"), tested.inputs, strict=True)))
    assert made.shape[1:] == (1, 4)
    onnx.checker.check_model(model, full_check=True)
