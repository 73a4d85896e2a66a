"""Operators that write tensors as text, in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.number_text import number_of
from onnx_sparse.reference.requirements import require_in_range
from onnx_sparse.reference.string_tensor import bytes_of, text_of
from onnx_sparse.schemas import formatting as declarations

_MOST_DIGITS = 4096
_CONVERSIONS = {"FIXED": "f", "SCIENTIFIC": "e", "SHORTEST": "g"}
_FLAGS = {"SPACE": " ", "PLUS": "+", "HASH": "#"}

#: How bytes are written in a summary, other than as they are.
_ESCAPED = {byte: b"\\%03o" % byte for byte in (*range(32), 127)} | {
    ord(character): b"\\" + letter
    for character, letter in zip("\n\r\t\"'\\", (b"n", b"r", b"t", b'"', b"'", b"\\"), strict=True)
}


@implements(declarations.AS_STRING)
def as_string(numbers: Array, precision: Array, width: Array, *, notation: str, fill: str) -> Array:
    """Numbers as text, in the same shape; see the semantics of AsString."""
    require_in_range("precision", precision, _MOST_DIGITS + 1, -1)
    require_in_range("width", width, _MOST_DIGITS + 1, -1)
    if numbers.dtype == bool:
        return np.where(numbers, "true", "false").astype(object)
    digits, size = int(precision) if precision >= 0 else 6, int(width)
    if numbers.dtype.kind in "iu":
        form = f"%{_FLAGS.get(fill, '') if numbers.dtype.kind == 'i' else ''}d"
    else:
        form = f"%{_FLAGS.get(fill, '')}.{digits}{_CONVERSIONS[notation]}"
        numbers = numbers.astype(np.float64)
    texts = [_padded(form % number, size, fill) for number in numbers.reshape(-1).tolist()]
    for k in np.flatnonzero(np.isnan(numbers) & np.signbit(numbers)):
        texts[k] = _padded("-nan", size, fill)
    return np.array(texts, object).reshape(numbers.shape)


def _padded(text: str, width: int, fill: str) -> str:
    if fill == "MINUS":
        return text.ljust(width)
    return text.zfill(width) if fill == "ZERO" and text[-1].isdigit() else text.rjust(width)


@implements(declarations.SUMMARIZE_TENSOR)
def summarize_tensor(tensor: Array, summarize: Array) -> Array:
    """The text of a tensor, a scalar; see the semantics of SummarizeTensor."""
    given, count = int(summarize), tensor.size
    at_ends = count if given < 0 else min(given, count)
    return text_of([_summary(tensor, at_ends)], ())


def _summary(tensor: Array, at_ends: int) -> bytes:
    if tensor.dtype == bool and not at_ends:
        return b""  # as TensorFlow, whose function for booleans begins so
    if tensor.ndim == 0:
        return _element(tensor) if at_ends else b"..."
    return _part(tensor, at_ends, 1)


def _part(part: Array, at_ends: int, depth: int) -> bytes:
    """A part of a tensor, or all of it, inside so many open brackets."""
    if part.ndim == 0:
        return _element(part)
    between = b" " if part.ndim == 1 else b"\n" * (part.ndim - 1) + b" " * depth
    count = len(part)
    first = [_part(part[k, ...], at_ends, depth + 1) for k in range(min(at_ends, count))]
    last = [_part(part[k, ...], at_ends, depth + 1) for k in range(max(at_ends, count - at_ends), count)]
    omitted = [b"..."] if count > 2 * at_ends else []
    # Where only the dots are written, the space before them is, too.
    return b"[" + between * (not first and bool(omitted)) + between.join([*first, *omitted, *last]) + b"]"


def _element(element: Array) -> bytes:
    if element.dtype == object:
        (text,) = bytes_of(element)
        return b'"' + b"".join(_ESCAPED.get(byte, bytes([byte])) for byte in text) + b'"'
    if element.dtype.kind in "iub":
        return b"%d" % int(element)
    return _floating_point(np.asarray(element, np.float64 if element.dtype == np.float64 else np.float32)[()])


def _floating_point(number: Any) -> bytes:
    if np.isnan(number):
        return b"-nan" if np.signbit(number) else b"nan"
    is_double = number.dtype == np.float64
    if abs(number) < np.finfo(number.dtype).tiny:
        return b"-0" if np.signbit(number) else b"0"
    short = b"%.*g" % (15 if is_double else 6, number)
    if not np.isfinite(number) or number_of(short, TensorProto.DOUBLE if is_double else TensorProto.FLOAT) == number:
        return short
    return b"%.*g" % (17 if is_double else 9, number)
