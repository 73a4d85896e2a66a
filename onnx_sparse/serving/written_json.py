"""Arrays as JSON, written in pieces: other threads run between them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from onnx_sparse.rows.columns import Array
from onnx_sparse.rows.json_texts import PIECE, JsonTexts

try:
    import msgspec
except ImportError:  # it takes a tenth of the time
    msgspec = None  # type: ignore[assignment]

#: The elements of a piece.
_ELEMENTS = 1 << 11


def to_values(array: Array) -> Any:
    """The values for JSON, in lists as deep as the array; float32 values keep every bit."""
    if array.dtype.kind == "V":  # bfloat16
        array = array.astype(np.float32)
    return array.tolist()


def write(to: bytearray, array: Array) -> None:
    """Append an array as JSON, in lists as deep as the array."""
    if array.size <= _ELEMENTS:
        to += _piece(array[:] if isinstance(array, JsonTexts) else array)
        return
    if isinstance(array, JsonTexts) and array.ndim == 1:
        begin = b"["
        for piece in array.json():
            to += begin
            to += piece
            begin = b", "
        to += b"]"
        return
    rows = _elements([array]) // (array.size // len(array))
    begin = b"["
    for at in range(0, len(array), rows or 1):
        to += begin
        if rows:
            to += _piece(array[at : at + rows])[1:-1]
        else:
            write(to, array[at])
        begin = b", "
    to += b"]"


def write_objects(to: bytearray, columns: Mapping[str, Array]) -> None:
    """Append the rows of arrays as JSON: a list of objects with a row of each."""
    count = len(next(iter(columns.values())))
    rows = count * _elements(columns.values()) // max(sum(array.size for array in columns.values()), 1)
    begin = b"["
    for at in range(0, count, rows or 1):
        to += begin
        if rows:
            values = zip(*(to_values(array[at : at + rows]) for array in columns.values()), strict=True)
            to += json.dumps([dict(zip(columns, row, strict=True)) for row in values]).encode()[1:-1]
        else:
            write_members(to, {name: array[at] for name, array in columns.items()})
        begin = b", "
    to += b"]" if count else b"[]"


def write_members(to: bytearray, arrays: Mapping[str, Array]) -> None:
    """Append an object with an array for each name."""
    begin = b"{"
    for name, array in arrays.items():
        to += b"%b%b: " % (begin, json.dumps(name).encode())
        write(to, array if isinstance(array, JsonTexts) else np.asarray(array))
        begin = b", "
    to += b"}"


def _elements(arrays: Iterable[Array]) -> int:
    """The elements of a piece: those of texts in JSON are read in larger ones."""
    return PIECE if any(isinstance(array, JsonTexts) for array in arrays) else _ELEMENTS


def _piece(array: Array) -> bytes:
    values = to_values(array)
    if msgspec is not None and array.dtype.kind == "f" and np.isfinite(array).all():  # it has no NaN
        return msgspec.json.encode(values)
    return json.dumps(values).encode()
