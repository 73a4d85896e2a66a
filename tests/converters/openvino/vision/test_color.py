"""Camera formats, of every brightness and color, against OpenVINO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, check, ops

pytest.importorskip("openvino")

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize(
    ("name", "planes"),
    [
        ("nv12", [[2, 96, 64, 1]]),
        ("nv12", [[2, 64, 66, 1], [2, 32, 33, 2]]),
        ("i420", [[2, 96, 64, 1]]),
        ("i420", [[2, 64, 66, 1], [2, 32, 33, 1], [2, 32, 33, 1]]),
    ],
)
@pytest.mark.parametrize("order", ["rgb", "bgr"])
def test_images(core: Any, tmp_path: Path, order: str, name: str, planes: Any, dtype: Any, dynamic: bool) -> None:
    inputs = [RNG.integers(0, 256, shape).astype(dtype) for shape in planes]
    tested = Case("", getattr(ops(8), f"{name}_to_{order}"), *inputs, dynamic=dynamic)
    check(tested, core, tested.save(tmp_path))
