"""What is computed in floats of integers: OpenVINO takes the nearest integer, and the ends of a narrow type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, c, check_all, ops

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

INTEGERS = (np.uint8, np.int8, np.int16, np.int32, np.int64)
#: Operators, and the integers for which OpenVINO's results are numbers.
EVERYWHERE = ("atan", "cos", "cosh", "erf", "exp", "sigmoid", "sin", "sinh", "tan", "tanh")
POSITIVE = ("log", "sqrt")


def differing(builds: dict[str, Any], x: Any, core: Any, folder: Path) -> dict[str, str]:
    return check_all(builds, [x], core, folder / "model.xml") | check_all(
        builds, [x], core, folder / "model.xml", dynamic=True
    )


@pytest.mark.parametrize("dtype", INTEGERS)
def test_functions(dtype: Any, core: Any, tmp_path: Path) -> None:
    """Results beyond a narrow type's range, as exp(7) of bytes, are its end."""
    least = 0 if dtype == np.uint8 else -8
    builds = {name: lambda x, n=name: getattr(ops(1), n)(x) for name in EVERYWHERE}
    builds["asinh"] = lambda x: ops(4).asinh(x)
    builds["elu"] = lambda x: ops(1).elu(x, 1.7)
    assert differing(builds, np.arange(least, 9).astype(dtype), core, tmp_path) == {}
    builds = {name: lambda x, n=name: getattr(ops(1), n)(x) for name in POSITIVE}
    builds["acosh"] = lambda x: ops(4).acosh(x)
    assert differing(builds, np.arange(1, 120).astype(dtype), core, tmp_path) == {}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_softmax(dtype: Any, core: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0 if dtype == np.uint8 else -4, 5, (3, 4, 5)).astype(dtype)
    builds = {f"{axis}": lambda x, a=axis: ops(8).softmax(x, a) for axis in (0, 1, 2)}
    assert differing(builds, x, core, tmp_path) == {}


@pytest.mark.parametrize("dtype", [*INTEGERS, np.uint32])
def test_means_are_cut_off(dtype: Any, core: Any, tmp_path: Path) -> None:
    """Unlike all others."""
    x = np.random.default_rng(1).integers(0 if dtype in (np.uint8, np.uint32) else -5, 6, (4, 7)).astype(dtype)
    builds = {
        "mean": lambda x: ops(1).reduce_mean(x, c([1]), keep_dims=False),
        "norm": lambda x: ops(4).reduce_l2(x, c([0]), keep_dims=False),
    }
    assert differing(builds, x, core, tmp_path) == {}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_means_of_windows(dtype: Any, core: Any, tmp_path: Path) -> None:
    """Of adaptive windows rounded once, for all axes together; of whole axes cut off."""
    low, high = (0, 60) if dtype == np.uint8 else (-60, 60)
    x = np.random.default_rng(2).integers(low, high, (2, 3, 7, 8)).astype(dtype)
    builds = {f"{size}": lambda x, s=size: ops(8).adaptive_avg_pool(x, c(s)) for size in (
        [3, 4], [7, 8], [7, 4], [5, 3], [9, 11], [1, 4])}  # fmt: skip
    assert differing(builds, x, core, tmp_path) == {}
    small = x % np.array(3, dtype)  # whose sums narrow types hold
    whole = {"whole": lambda x: ops(8).adaptive_avg_pool(x, c([1, 1]))}
    assert differing(whole, small, core, tmp_path) == {}


def test_sums_beyond_half_floats(core: Any, tmp_path: Path) -> None:
    x = np.full((1, 2, 63, 65), 3000, np.float16)
    builds = {f"{size}": lambda x, s=size: ops(8).adaptive_avg_pool(x, c(s)) for size in ([2, 2], [1, 1], [7, 5])}
    assert differing(builds, x, core, tmp_path) == {}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_norms_of_channels(dtype: Any, core: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(3).integers(0, 9, (2, 3, 4, 5)).astype(dtype)
    assert differing({"grn": lambda x: ops(1).grn(x, 0.3)}, x, core, tmp_path) == {}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_columns_put_together(dtype: Any, core: Any, tmp_path: Path) -> None:
    """Col2Im, which ONNX Runtime has for floats only."""
    x = np.random.default_rng(4).integers(0, 20, (2, 18, 16)).astype(dtype)
    builds = {"col2im": lambda x: ops(15).col2im(x, c([5, 6]), c([2, 3]), [1, 1], [1, 1], [0, 0], [0, 0])}
    assert differing(builds, x, core, tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "build", "reason"),
    [
        ("mvn", lambda x: ops(6).mvn(x, c([1]), True, 0.1, "inside_sqrt"), "OpenVINO rounds its means or not"),
        ("col2im", lambda x: ops(15).col2im(x, c([3, 4]), c([2, 3])), "whose sums floats do not hold"),
    ],
)
def test_integers_that_are_refused(name: str, build: Any, reason: str, tmp_path: Path) -> None:
    path = Case(name, build, np.ones((2, 18, 4), np.int32)).save(tmp_path)
    with pytest.raises(ConversionError, match=reason):
        convert(path)
