"""DetectionOutput with random attributes and inputs, among them equal scores and turned boxes, against OpenVINO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")


def random_case(rng: Any, *, dynamic: bool) -> tuple[int, Case]:
    """A case and how many rows it makes at most."""
    images, classes, priors = int(rng.integers(1, 4)), int(rng.integers(2, 5)), int(rng.integers(1, 12))
    attributes: dict[str, Any] = {
        "keep_top_k": [int(rng.choice([-1, 1, 4, 9, 50]))],
        "top_k": int(rng.choice([-1, 1, 3, 40])),
        "nms_threshold": float(rng.choice([0.0, 0.3, 0.45, 1.0])),
        "confidence_threshold": float(rng.choice([0, 0.1, 0.3, -1])),
        "background_label_id": int(rng.choice([-1, 0, 1])),
        "code_type": f"caffe.PriorBoxParameter.{rng.choice(['CORNER', 'CENTER_SIZE'])}",
        "input_height": 20,
        "input_width": 30,
        "objectness_score": 0.3,
    }
    for key in ("share_location", "normalized", "variance_encoded_in_target", "clip_before_nms", "clip_after_nms"):
        attributes[key] = bool(rng.integers(2))
    if rng.random() < 0.3:
        attributes |= {"decrease_label_id": True, "background_label_id": 0}
    version = int(rng.choice([1, 8]))
    if version == 1:
        attributes["num_classes"] = classes
    corners = rng.uniform(0, 0.6, (images if rng.integers(2) else 1, priors, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(-0.05, 0.5, corners.shape)], -1)
    if not attributes["normalized"]:
        ended = (rng.random(boxes.shape[:2]) < 0.1) * -1.0
        boxes = np.concatenate([ended[..., None], boxes * 20], -1)
    given = boxes.reshape(len(boxes), 1, -1)
    if not attributes["variance_encoded_in_target"]:
        variance = np.zeros_like(given)
        variance[..., : priors * 4] = rng.uniform(0.05, 0.3, (len(boxes), 1, priors * 4))
        given = np.concatenate([given, variance], 1)
    places = priors * 4 * (1 if attributes["share_location"] else classes)
    # Equal scores are of different priors: of those of one prior, OpenVINO keeps either at the limit of keep_top_k.
    scores = rng.choice(np.linspace(0, 1, int(rng.choice([4, 1000]))), (images, priors, classes))
    scores = (scores + np.arange(classes) * 1e-4).reshape(images, -1)
    inputs = [rng.normal(size=(images, places)) * 0.3, scores, given]
    if rng.random() < 0.4:
        inputs += [rng.random((images, priors * 2)), rng.normal(size=(images, places)) * 0.1]

    def build(*parameters: Any) -> Any:
        main, first = parameters[:3], parameters[3:]
        return ops(version).detection_output(*main, dict(attributes), *first)

    keep, top = attributes["keep_top_k"][0], attributes["top_k"]
    rows = keep if keep > 0 else classes * (priors if top == -1 else top)
    return images * rows, Case("", build, *(x.astype(np.float32) for x in inputs), dynamic=dynamic)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random(seed: int, core: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    found = 0
    for number in range(25):
        rows, tested = random_case(rng, dynamic=number % 3 == 0)
        path = tested.save(tmp_path)
        (wanted,) = core.compile_model(core.read_model(path), "CPU")(tested.inputs).values()
        feeds = {f"p{k}": value for k, value in enumerate(tested.inputs)}
        (made,) = InferenceSession(convert(path)).run(None, feeds)
        assert made.shape == (1, 1, rows, 7)
        np.testing.assert_array_equal(made[..., :3], wanted[..., :3])
        # The plugin and ONNX Runtime compute exponentials that differ in the last place.
        np.testing.assert_allclose(made[..., 3:], wanted[..., 3:], rtol=2e-6, atol=2e-6)
        found += int((wanted[..., 0] >= 0).sum())
    assert found > 50


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [("nms_threshold", 1.5, "nms_threshold = 1.5"), ("top_k", 0, "top_k = 0"), ("keep_top_k", [0], "keep_top_k = 0")],
)
def test_what_is_refused(attribute: str, value: Any, words: str, tmp_path: Path) -> None:
    inputs = [np.ones(shape, np.float32) for shape in ((1, 8), (1, 4), (1, 2, 8))]
    attributes = {"keep_top_k": [4], "nms_threshold": 0.4, "normalized": True, attribute: value}
    tested = Case("", lambda *p: ops(8).detection_output(*p, attributes), *inputs)
    with pytest.raises(ConversionError, match=words):
        convert(tested.save(tmp_path))
