"""Proposal with random attributes, against OpenVINO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, compiling_core, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

F = np.float32


def random_case(rng: Any, *, dynamic: bool) -> Case:
    """A case whose scores differ, and whose boxes are large enough: OpenVINO's order of others is any.

    There are more than eight: of fewer, its process ends.
    """
    ratios, scales = (rng.uniform(0.4, 2.5, int(rng.integers(1, 3))).astype(F) for _ in range(2))
    anchors, images = ratios.size * scales.size, int(rng.integers(1, 4))
    height, width = (int(n) for n in rng.integers(3, 6, 2))
    attributes: dict[str, Any] = {
        "base_size": np.uint32(rng.choice([9, 16])),
        "pre_nms_topn": np.uint32(rng.choice([12, 20, 100])),
        "post_nms_topn": np.uint32(rng.choice([2, 12, 90])),
        "feat_stride": np.uint32(rng.choice([5, 8])),
        "min_size": np.uint32(1),
        "nms_thresh": float(rng.choice([0.05, 0.4, 0.7])),
        "framework": str(rng.choice(["", "tensorflow"])),
        "ratio": ratios,
        "scale": scales,
        "clip_before_nms": False,
        "box_size_scale": float(rng.choice([1, 5])),
        "box_coordinate_scale": float(rng.choice([1, 10])),
    }
    for key in ("clip_after_nms", "normalize"):
        attributes[key] = bool(rng.integers(2))
    if attributes["framework"] == "":
        attributes["clip_before_nms"] = bool(rng.integers(2))
    count = images * 2 * anchors * height * width
    scores = (rng.permutation(count) + 1).reshape(images, -1, height, width) / count
    moves = rng.normal(size=(images, 4 * anchors, height, width)) * 0.4
    size = np.array([60, 80, 0.5, 1][: int(rng.choice([3, 4]))])
    version = int(rng.choice([1, 4]))
    inputs = [x.astype(F) for x in (scores, moves, size)]
    return Case("", lambda *p: ops(version).proposal(*p, dict(attributes)), *inputs, dynamic=dynamic, static=((2, 0),))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random(seed: int, tmp_path: Path) -> None:
    core, rng = compiling_core(), np.random.default_rng(seed)
    for number in range(20):
        tested = random_case(rng, dynamic=number % 3 == 0)
        path = tested.save(tmp_path)
        wanted = list(core.compile_model(core.read_model(path), "CPU")(tested.inputs).values())
        made = InferenceSession(convert(path)).run(None, {f"p{k}": value for k, value in enumerate(tested.inputs)})
        np.testing.assert_allclose(made[0], wanted[0], rtol=1e-5, atol=1e-4)
        if len(made) > 1:  # what is behind the last box is not initialized in OpenVINO
            is_box = (wanted[0][:, 1:] != 0).any(1)
            np.testing.assert_array_equal(made[1][is_box], wanted[1][is_box])
            assert not made[1][~is_box].any()


@pytest.mark.parametrize(
    ("attribute", "words"),
    [('framework="caffe"', "framework = 'caffe' is not supported"), ('pre_nms_topn="0"', "pre_nms_topn = 0")],
)
def test_what_is_refused(attribute: str, words: str, tmp_path: Path) -> None:
    tested = random_case(np.random.default_rng(0), dynamic=False)
    path = tested.save(tmp_path)
    name = attribute.split("=")[0]
    text = path.read_text("utf-8")
    start = text.index(f'{name}="')
    end = text.index('"', start + len(name) + 2) + 1
    path.write_text(text[:start] + attribute + text[end:], "utf-8")
    with pytest.raises(ConversionError, match=words):
        convert(path)
