"""PriorBox and PriorBoxClustered with random attributes, bit by bit, against OpenVINO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, c, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

ov = pytest.importorskip("openvino")

CELLS, IMAGE = np.int64([3, 4]), np.int64([33, 50])


def some(rng: Any, low: float, high: float, count: int) -> list[float]:
    return [float(number) for number in rng.uniform(low, high, count).astype(np.float32)]


def of_sizes(rng: Any) -> dict[str, Any]:
    smallest = some(rng, 3, 40, rng.integers(1, 4))
    return {
        "min_size": smallest,
        "max_size": some(rng, 40, 60, rng.integers(0, len(smallest) + 1)),
        "aspect_ratio": [float(r) for r in rng.choice([1, 2, 3, 0.5, 0.25, 1.5], rng.integers(0, 4))],
        "step": float(rng.choice([0, 8, 7.3])),
    }


def of_parts(rng: Any) -> dict[str, Any]:
    """As MXNet: the sizes are parts of the image's height."""
    made = of_sizes(rng) | {"scale_all_sizes": False, "max_size": [], "step": float(rng.choice([0, 0.1, 0.25]))}
    return made | {"min_size": some(rng, 0.1, 0.5, rng.integers(1, 4))}


def of_fixed_sizes(rng: Any) -> dict[str, Any]:
    count = rng.integers(1, 3)
    made = of_sizes(rng) | {"min_size": [], "max_size": [], "step": float(rng.choice([0, 8]))}
    sizes = [size - int(size) % 2 for size in some(rng, 4, 30, count)]
    made |= {"fixed_size": sizes, "density": [float(n) for n in rng.integers(1, 4, count)]}
    if rng.random() < 0.5:
        made |= {"aspect_ratio": [2.0], "fixed_ratio": [float(r) for r in rng.choice([1, 2, 0.5], 2)]}
    return made


@pytest.mark.parametrize("kind", [of_sizes, of_parts, of_fixed_sizes])
@pytest.mark.parametrize("version", [1, 8])
def test_prior_boxes(version: int, kind: Any, core: Any, tmp_path: Path) -> None:
    """The numbers of boxes that OpenVINO declares may be others than it makes; these are refused."""
    rng = np.random.default_rng(version)
    equal = 0
    for number in range(16):
        attributes = kind(rng) | {
            "offset": float(rng.choice([0, 0.5, 0.3])),
            "flip": bool(rng.integers(2)),
            "clip": bool(rng.integers(2)),
            "variance": some(rng, 0.1, 0.3, int(rng.choice([0, 1, 4]))),
        }
        # OpenVINO's plugin has no kernel for the other order, which it folds if the inputs are constants.
        is_folded = version == 8 and number % 2 == 1
        if is_folded:
            attributes["min_max_aspect_ratios_order"] = bool(rng.integers(2))

        def build(*given: Any, a: Any = attributes, folded: bool = is_folded) -> Any:
            boxes = ops(version).prior_box(*((c(CELLS), c(IMAGE)) if folded else given), dict(a))
            return ops(8).concat([boxes, given[-1]], 1) if folded else boxes

        given = [np.zeros((2, 1), np.float32)] if is_folded else [CELLS, IMAGE]
        tested = Case("", build, *given, dynamic=number % 4 == 0)
        equal += is_equal_or_refused(tested, core, tested.save(tmp_path))
    assert equal >= 3


def test_clustered_prior_boxes(core: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for number in range(16):
        count = rng.integers(1, 4)
        attributes = {
            "width": some(rng, 3, 60, count),
            "height": some(rng, 3, 60, count),
            "offset": float(rng.choice([0.1, 0.5, 0.3])),
            "clip": bool(rng.integers(2)),
            "variance": some(rng, 0.1, 0.3, int(rng.choice([0, 1, 4]))),
        }
        attributes |= {key: 7.5 for key in ("step", "step_widths", "step_heights") if rng.integers(2)}
        tested = Case("", lambda h, i, a=attributes: ops(1).prior_box_clustered(h, i, dict(a)), CELLS, IMAGE,
                      dynamic=number % 2 == 0)  # fmt: skip
        assert is_equal_or_refused(tested, core, tested.save(tmp_path))


def is_equal_or_refused(tested: Case, core: Any, path: Path) -> bool:
    try:
        model = convert(path)
    except ConversionError as error:
        if "boxes per cell" not in str(error):
            raise
        return False
    (wanted,) = core.compile_model(core.read_model(path), "CPU")(tested.inputs).values()
    feeds = {f"p{k}": value for k, value in enumerate(tested.inputs)}
    (made,) = InferenceSession(model).run(None, feeds)
    np.testing.assert_array_equal(made, wanted)
    return True


def test_odd_fixed_sizes_are_refused(tmp_path: Path) -> None:
    attributes = {"fixed_size": [7.5], "density": [1.0], "offset": 0.5}
    tested = Case("", lambda h, i: ops(8).prior_box(h, i, attributes), CELLS, IMAGE)
    with pytest.raises(ConversionError, match="a fixed size of 7, which is odd"):
        convert(tested.save(tmp_path))
