"""What an oracle answers, and how an output is compared with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Any]
Oracle = Callable[[Inputs, Mapping[str, str]], "dict[str, Expected]"]


@dataclass
class Expected:
    """An output: its dtype, its shape, its elements in row-major order, and the tolerance of each."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    elements: list[Any]
    tolerance: list[float] | None = None

    @classmethod
    def exactly(cls, dtype: Any, shape: Iterable[int], elements: Iterable[Any]) -> Expected:
        return cls(np.dtype(dtype), tuple(int(d) for d in shape), list(elements))


def python_value(value: Any) -> Any:
    """An element as a Python int, float, bool or str."""
    if not isinstance(value, np.generic):
        return value
    return float(value) if value.dtype == ml_dtypes.bfloat16 else value.item()


def text_bytes(value: Any) -> Any:
    """Text as its bytes; a surrogate stands for a byte that is not UTF-8."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def is_utf8(expected: Expected) -> bool:
    """Whether all strings among the elements, if any, are UTF-8."""
    try:
        return all(text_bytes(e).decode() is not None for e in expected.elements if isinstance(e, str | bytes))
    except UnicodeDecodeError:
        return False


def elements(array: Array) -> list[Any]:
    return [python_value(v) for v in array.reshape(-1)]


def assert_equals(actual: Array, expected: Expected, name: str) -> None:
    """Dtype and shape first, then values."""
    assert actual.dtype == expected.dtype, f"{name}: dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{name}: shape {actual.shape}, expected {expected.shape}"
    tolerance = expected.tolerance or [0.0] * len(expected.elements)
    for k, (got, want, error) in enumerate(zip(elements(actual), expected.elements, tolerance, strict=True)):
        if isinstance(want, float) or isinstance(got, float):
            assert close(got, float(want), error, expected.dtype), f"{name}, element {k}: {got}, expected {want}"
        else:
            got, want = text_bytes(got), text_bytes(want)
            assert got == want, f"{name}, element {k}: {got}, expected {want}"


def close(got: float, want: float, error: float, dtype: np.dtype[Any]) -> bool:
    """Whether `got` is some number within `error` of `want`, rounded to the dtype."""
    if math.isnan(got) or math.isnan(want):
        return math.isnan(got) and math.isnan(want)
    with np.errstate(all="ignore"):
        low, high = (float(np.array(bound, np.float64).astype(dtype)) for bound in (want - error, want + error))
    return low <= got <= high
