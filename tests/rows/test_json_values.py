"""Values as JSON has them: read exactly or refused by their place, and in time that does not depend on their types."""

from __future__ import annotations

import json
import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from onnx_sparse.rows import columns, json_text
from onnx_sparse.rows.columns import typed_list
from onnx_sparse.schemas.declaration import numpy_dtype

INTEGERS = st.one_of(
    st.integers(-300, 300),
    st.sampled_from([2**k + d for k in (7, 8, 11, 24, 31, 32, 53, 63, 64, 128, 1023, 1024) for d in (-1, 0, 1)]),
    st.integers(-(2**70), 2**70),
)
VALUES = st.one_of(INTEGERS, st.floats(), st.booleans(), st.none(), st.text(max_size=3))
TYPES = [
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.BOOL,
    TensorProto.INT8, TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT64, TensorProto.STRING,
]  # fmt: skip


def expected(value: Any, wanted: np.dtype[Any]) -> Any:
    """A value as one of a type, by exact arithmetic; None if it does not fit."""
    if wanted.kind == "O":
        return value if isinstance(value, str) else None
    if wanted.kind == "b" or isinstance(value, bool):
        return value if wanted.kind == "b" and isinstance(value, bool) else None
    if wanted.kind in "iu":
        info = np.iinfo(wanted)
        return value if isinstance(value, int) and info.min <= value <= info.max else None
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            rounded = float(np.float64(value).astype(wanted))
        return None if math.isinf(rounded) and not math.isinf(value) else rounded
    if not isinstance(value, int) or abs(value) >= 2**1024:
        return None
    with np.errstate(over="ignore"):
        rounded = float(np.float64(float(Fraction(value))).astype(wanted))
    return rounded if math.isfinite(rounded) and Fraction(rounded) == value else None


@given(st.lists(VALUES, max_size=12), st.sampled_from(TYPES), st.sampled_from([1, 2, 5, 100]))
def test_values_are_exact_or_refused_at_the_first_that_is_not(values, dtype, part):
    before, columns._PART = columns._PART, part
    try:
        wanted = numpy_dtype(dtype)
        right = [expected(value, wanted) for value in values]
        if None in right:
            with pytest.raises(ValueError, match=f"^x, row {right.index(None)}"):
                typed_list("x", values, dtype, [len(values)])
            return
        made = typed_list("x", values, dtype, [len(values)])
        assert made.dtype == wanted
        got = made.astype(np.float64).tolist() if wanted.kind == "V" else made.tolist()
        assert list(map(repr, got)) == list(map(repr, right))
    finally:
        columns._PART = before


JSON = st.recursive(
    st.one_of(INTEGERS, st.floats(), st.booleans(), st.none(), st.text(st.characters(codec="utf-8"), max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=10,
)


@given(JSON)
def test_json_is_read_as_python_reads_it(value):
    text = json.dumps(value).encode()
    assert repr(json_text.parsed(text)) == repr(json.loads(text))


@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize(
    "number", ["1e999", "-1e309", "[NaN, 1e400]", "1" * 310 + ".5", "12345678901234567890e299", "1e0000000000999"]
)
def test_numbers_that_no_double_holds(number, is_fast, monkeypatch):
    if not is_fast:
        monkeypatch.setattr(json_text, "msgspec", None)
    with pytest.raises(ValueError, match=r"too large|out of range"):
        json_text.parsed(number.encode())


def test_equal_keys_and_large_integers():
    assert json_text.parsed(b'{"a": 1, "a": 18446744073709551617}') == {"a": 2**64 + 1}
    assert json_text.parsed(b"[1e308, -0.0, 100e100]") == [1e308, -0.0, 1e102]


@pytest.mark.parametrize("kind", ["integers", "one integer", "large integers", "a misfit at the end"])
def test_time_does_not_depend_on_types(kind):
    count = 50_000
    values: list[Any] = {
        "integers": [1] * count,
        "one integer": [1.5] * (count - 1) + [1],
        "large integers": [2**60] * count,
        "a misfit at the end": [1] * (count - 1) + [2**60 + 1],
    }[kind]

    def seconds(given: list[Any]) -> float:
        best = math.inf
        for _ in range(3):
            begun = time.process_time()
            try:
                typed_list("x", given, TensorProto.FLOAT, [count])
            except ValueError:
                assert "misfit" in kind
            best = min(best, time.process_time() - begun)
        return best

    assert seconds(values) < 25 * seconds([1.5] * count)
