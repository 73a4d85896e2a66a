"""DecodeCSV in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.number_text import number_of
from onnx_sparse.reference.requirements import element_name, require_allocatable
from onnx_sparse.reference.string_tensor import bytes_of, shown, text_of
from onnx_sparse.schemas import csv_parsing as declarations
from onnx_sparse.schemas.declaration import dtype_name, numpy_dtype
from onnx_sparse.schemas.validation import KernelError

_QUOTE = b'"'
_LINE_BREAKS = b"\n\r"


class _DamagedError(Exception):
    """A record whose columns cannot be told apart."""


@implements(declarations.DECODE_CSV)
def decode_csv(
    records: Array,
    types: Array,
    required: Array,
    float_defaults: Array,
    int32_defaults: Array,
    int64_defaults: Array,
    string_defaults: Array,
    double_defaults: Array,
    delimiter: Array,
    na_value: Array,
    columns: Array | None,
    *,
    quoting: str,
) -> tuple[Array, ...]:
    """The fields of records [*S] by type, each [fields of the type, *S]; see the semantics of DecodeCSV."""
    (separator,), (missing,) = bytes_of(delimiter), bytes_of(na_value)
    if len(separator) != 1:
        raise KernelError(f"delimiter has {len(separator)} bytes; 1 expected")
    defaults = _defaults_of_fields(
        types, required, (float_defaults, int32_defaults, int64_defaults, bytes_of(string_defaults), double_defaults)
    )
    chosen = None if columns is None else _increasing(columns)
    numbers = range(len(types)) if chosen is None else chosen
    values: list[list[Any]] = [[] for _ in types]
    for k, record in enumerate(bytes_of(records)):
        where = element_name("records", tuple(map(int, np.unravel_index(k, records.shape))))
        texts = _columns(record, separator, quoting == "MINIMAL", chosen, len(types), where)
        for f, column in enumerate(numbers):
            if texts[f] not in (b"", missing):
                values[f].append(_value(texts[f], int(types[f]), f"{where}: column {column}"))
            elif required[f]:
                raise KernelError(f"{where}: column {column} is empty; it is required")
            else:
                values[f].append(defaults[f])
    return tuple(_stacked(values, types, dtype, records.shape) for dtype in declarations.FIELD_TYPES)


def _increasing(columns: Array) -> list[int]:
    for k, column in enumerate(columns.tolist()):
        if column < 0:
            raise KernelError(f"columns[{k}] = {column} must be >= 0")
        if k and column <= columns[k - 1]:
            raise KernelError(f"columns[{k}] = {column} must be greater than columns[{k - 1}] = {columns[k - 1]}")
    return [int(column) for column in columns]


def _defaults_of_fields(types: Array, required: Array, given: Sequence[Sequence[Any] | Array]) -> list[Any]:
    """What an empty column is of each field; None where it is required."""
    known = dict(zip(declarations.FIELD_TYPES, given, strict=True))
    for f, dtype in enumerate(types):
        if dtype not in known:
            raise KernelError(
                f"types[{f}] = {dtype} is neither 1 (float), 6 (int32), 7 (int64), 8 (string) nor 11 (double)"
            )
    found: list[Any] = [None] * len(types)
    for dtype, values in known.items():
        fields = np.flatnonzero((types == dtype) & ~required)
        if len(fields) != len(values):
            raise KernelError(f"{dtype_name(dtype)}_defaults has {len(values)} elements; expected {len(fields)}")
        for field, value in zip(fields, values, strict=True):
            found[field] = value
    return found


def _columns(
    record: bytes, separator: bytes, quotes: bool, chosen: list[int] | None, fields: int, where: str
) -> list[bytes]:
    """The columns of a record that are chosen, or all, which are as many as the fields."""
    found: list[bytes] = []
    count = 0
    try:
        for text in _all_columns(record, separator, quotes):
            if chosen is None or chosen[len(found)] == count:
                found.append(text)
            count += 1
            if chosen is not None and len(found) == len(chosen):
                return found
    except _DamagedError as damage:
        raise KernelError(f"{where}: column {count} {damage}") from None
    if chosen is None and count == fields:
        return found
    wanted = fields if chosen is None else f"at least {chosen[-1] + 1}"
    raise KernelError(f"{where} has {count} columns; {wanted} expected")


def _all_columns(record: bytes, separator: bytes, quotes: bool) -> Iterator[bytes]:
    at = 0
    while at < len(record):
        if record[at : at + 1] in (b"\n", b"\r"):
            at += 1
        elif quotes and record[at : at + 1] == _QUOTE:
            text, at = _quoted(record, at + 1, separator)
            yield text
        else:
            end = record.find(separator, at)
            text = record[at : end if end >= 0 else len(record)]
            if any(byte in text for byte in _LINE_BREAKS) or (quotes and _QUOTE in text):
                raise _DamagedError("has a quote or a line break, and is not quoted")
            yield text
            at += len(text) + 1
    if record.endswith(separator):
        yield b""


def _quoted(record: bytes, at: int, separator: bytes) -> tuple[bytes, int]:
    """The content of a quoted column that begins at a position, and where the next column begins."""
    text = b""
    while at < len(record) - 1 and record[at : at + 2] != _QUOTE + separator:
        if record[at : at + 1] != _QUOTE:
            text += record[at : at + 1]
            at += 1
        elif record[at + 1 : at + 2] == _QUOTE:
            text += _QUOTE
            at += 2
        else:
            raise _DamagedError("has a quote that is not doubled")
    if record[at : at + 1] != _QUOTE:
        raise _DamagedError("begins with a quote and does not end with one")
    return text, at + 2


def _value(text: bytes, dtype: int, where: str) -> Any:
    if dtype == TensorProto.STRING:
        return text
    number = number_of(text, dtype)
    if number is None:
        raise KernelError(f"{where} = {shown(text)} is not of type {dtype_name(dtype)}")
    return number


def _stacked(values: list[list[Any]], types: Array, dtype: int, shape: tuple[int, ...]) -> Array:
    """The values of all fields of a type."""
    own = [values[f] for f in np.flatnonzero(types == dtype)]
    whole = (len(own), *shape)
    require_allocatable(whole, numpy_dtype(dtype), f"the {dtype_name(dtype)} fields")
    flat = [value for field in own for value in field]
    if dtype == TensorProto.STRING:
        return text_of(flat, whole)
    return np.array(flat, numpy_dtype(dtype)).reshape(whole)
