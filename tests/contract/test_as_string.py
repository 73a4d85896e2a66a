"""AsString equals TensorFlow's on every option, dtype and kind of number: the reference, and the native kernel."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from contract.backends import BACKENDS, Call
from onnx import TensorProto

from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import element_type, numpy_dtype

tf = pytest.importorskip("tensorflow")

NOTATIONS = {"FIXED": {}, "SCIENTIFIC": {"scientific": True}, "SHORTEST": {"shortest": True}}
FILLS = {"NONE": "", "SPACE": " ", "PLUS": "+", "MINUS": "-", "ZERO": "0", "HASH": "#"}
DTYPES = [numpy_dtype(dtype) for dtype in OPS["AsString"].types["T"]]


def numbers(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Zeros, limits, ties, all magnitudes, infinities and NaN of either sign; nothing subnormal, which TensorFlow takes
    for 0."""
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([0, 1, 9, 10, limits.max, limits.min, limits.max // 3, limits.min // 7], dtype)
    limits = ml_dtypes.finfo(dtype)
    powers = 10.0 ** np.arange(-7, 22)
    some = [0.0, 0.5, 1.5, 2.5, 0.125, 9.9995, 999999.5, 1 / 3, np.inf, np.nan]
    ends = [float(limits.max), float(limits.tiny)]
    with np.errstate(over="ignore"):
        half = np.array([*some, *powers, *(powers / 7), *ends]).astype(dtype)
    return np.concatenate([half, np.copysign(half, np.array(-1, dtype))])


@pytest.mark.parametrize("backend", [name for name in ("reference", "ORT native") if name in BACKENDS])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_text_equals_tensorflows(dtype: np.dtype[Any], backend: str) -> None:
    given = numbers(dtype)
    is_float = dtype.kind not in "iub"
    for notation, fill in itertools.product(NOTATIONS if is_float else ["FIXED"], FILLS):
        for precision, width in ((-1, -1), (0, 0), (3, 1), (17, 30), (40, 12)) if is_float else ((-1, -1), (-1, 12)):
            inputs = {"input": given, "precision": np.array(precision), "width": np.array(width)}
            call = Call.of(OPS["AsString"], {"T": element_type(dtype)}, {"notation": notation, "fill": fill}, inputs)
            (got,) = BACKENDS[backend](call, inputs)
            wanted = tf.as_string(
                given, precision=precision, width=width, fill=FILLS[fill], **NOTATIONS[notation]
            ).numpy()
            assert got.tolist() == [text.decode() for text in wanted], (notation, fill, precision, width)


@pytest.mark.parametrize("backend", [name for name in ("reference", "ORT native") if name in BACKENDS])
@pytest.mark.parametrize("name", ["precision", "width"])
def test_more_digits_than_any_number_has_are_refused(name: str, backend: str) -> None:
    inputs = {"input": np.ones(3), "precision": np.array(-1), "width": np.array(-1), name: np.array(4097)}
    attributes = OPS["AsString"].with_defaults({})
    call = Call.of(OPS["AsString"], {"T": TensorProto.DOUBLE}, attributes, inputs)
    with pytest.raises(Exception, match=rf"AsString: {name} = 4097 is out of range \[-1, 4097\)"):
        BACKENDS[backend](call, inputs)
