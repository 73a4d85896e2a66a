"""Numbers in text, as C reads them, rounded once to their type."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import DType, numpy_dtype

_WHITESPACE = b" \t\n\v\f\r"
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_DECIMAL = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?", re.IGNORECASE)
_HEXADECIMAL = re.compile(rb"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?", re.IGNORECASE)
_WORD = re.compile(rb"([+-]?)(?:(inf(?:inity)?)|nan(?:\([0-9a-z_]*\))?)", re.IGNORECASE)


def number_of(text: bytes, dtype: DType) -> Any | None:
    """The number that a text is, of type float, double, int32 or int64; None where it is none."""
    text = text.strip(_WHITESPACE)
    if dtype in (TensorProto.INT32, TensorProto.INT64):
        return _integer(text, numpy_dtype(dtype))
    if word := _WORD.fullmatch(text):
        return math.copysign(math.inf if word[2] else math.nan, -1 if word[1] == b"-" else 1)
    if _HEXADECIMAL.fullmatch(text):
        exact, nearest = _from_hexadecimal(text.decode())
    elif _DECIMAL.fullmatch(text):
        nearest = float(text)
        exact = Fraction(text.decode()) if math.isfinite(nearest) and nearest else None
    else:
        return None
    if dtype == TensorProto.FLOAT and exact is not None:
        return np.float32(_rounded_to_odd(exact, nearest))
    return numpy_dtype(dtype).type(nearest)


def _integer(text: bytes, dtype: np.dtype[Any]) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip(b"+-").lstrip(b"0") or b"0"
    if len(digits) > 20:  # more than Python likes to read
        return None
    number = -int(digits) if text.startswith(b"-") else int(digits)
    limits = np.iinfo(dtype)
    return number if limits.min <= number <= limits.max else None


def _from_hexadecimal(text: str) -> tuple[Fraction | None, float]:
    """The number, where it is neither 0 nor infinite as a double, and the nearest double."""
    try:
        nearest = float.fromhex(text)
    except OverflowError:
        nearest = -math.inf if text.startswith("-") else math.inf
    if not (math.isfinite(nearest) and nearest):
        return None, nearest
    digits, _, exponent = text.lower().partition("p")
    sign, _, digits = digits.partition("0x")
    whole, _, behind = digits.partition(".")
    power = int(exponent or "0") - 4 * len(behind)
    return Fraction(int(f"{sign}{whole}{behind}", 16)) * Fraction(2) ** power, nearest


def _rounded_to_odd(exact: Fraction, nearest: float) -> float:
    """The double whose rounding to float32 is that of the number: of its neighbors, the one with an odd mantissa."""
    if Fraction(nearest) == exact or int(np.float64(nearest).view(np.int64)) & 1:
        return nearest
    return math.nextafter(nearest, math.inf if exact > Fraction(nearest) else -math.inf)
