"""ErfInv against its definition, erf(y) = x, and against OpenVINO where that is exact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_irs import IrBuilder, type_name
from support.openvino_models import Case, compiling_core, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

F = np.float32


def converted(x: Any, folder: Path) -> Any:
    """The results of a converted handwritten file."""
    net = IrBuilder()
    name, shape = type_name(x.dtype), list(x.shape)
    net.result(net.layer("ErfInv", "opset17", [net.parameter("x", name, shape)], [(name, shape)]))
    (made,) = InferenceSession(convert(net.save(folder))).run(None, {"x": x})
    return made


def test_definition(tmp_path: Path) -> None:
    """A change of y by a few of its last digits changes erf(y) by no less than it differs from x."""
    near = 1 - np.exp2(-np.linspace(1, 24, 500))
    small = np.exp2(-np.linspace(1, 120, 200))
    x = np.concatenate([np.linspace(-0.999, 0.999, 1001), near, -near, small, -small]).astype(F)
    made = converted(x, tmp_path)
    assert made.dtype == F
    for given, y in zip(x.tolist(), made.tolist(), strict=True):
        assert math.copysign(1, y) == math.copysign(1, given)
        low, high = (math.erfc(abs(y) * (1 + sign * 2e-6)) for sign in (1, -1))
        if abs(given) > 0.5:  # the digits of 1 - x are those of erfc
            assert low <= 1 - abs(given) <= high
        else:
            assert math.erf(abs(y) * (1 - 2e-6)) <= abs(given) <= math.erf(abs(y) * (1 + 2e-6))


def test_ends(tmp_path: Path) -> None:
    x = F([0, -0.0, 1, -1, 1.5, -2, np.nan, np.inf, -np.inf])
    made = converted(x, tmp_path)
    np.testing.assert_array_equal(made, F([0, 0, np.inf, -np.inf, *[np.nan] * 5]))
    assert np.signbit(made[1])


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 7)], ids=str)
@pytest.mark.parametrize("dtype", [np.float16, F])
def test_openvino(dtype: Any, shape: tuple[int, ...], dynamic: bool, tmp_path: Path) -> None:
    """To the digits that OpenVINO's plugin has, up to the number from which its polynomial is another one."""
    pytest.importorskip("openvino")
    x = np.random.default_rng(0).uniform(-0.996, 0.996, shape).astype(dtype)
    path = Case("ErfInv", lambda x: ops(17).erfinv(x), x, dynamic=dynamic).save(tmp_path)
    core = compiling_core()
    (want,) = core.compile_model(core.read_model(path), "CPU")([x]).values()
    (have,) = InferenceSession(convert(path)).run(None, {"p0": x})
    assert (have.dtype, have.shape) == (dtype, shape)
    np.testing.assert_allclose(have, want, rtol=2e-4 if dtype == F else 2e-3)


def test_double_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="only float, float16 and bfloat16"):
        converted(np.zeros(2), tmp_path)
