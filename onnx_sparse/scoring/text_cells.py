"""What texts and JSON values stand for, as Arrow columns, and what is wrong with those of single rows."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
from pyarrow import types

from onnx_sparse.rows.columns import RowError, typed_list
from onnx_sparse.schemas.declaration import DType, numpy_dtype

#: What a cell holds where there is no value.
_NULLS = pa.array(pyarrow.csv.ConvertOptions().null_values)
#: The errors of pyarrow for a Python value that is not of a type.
_UNFIT = (pa.ArrowException, OverflowError, UnicodeEncodeError, ValueError)
#: Digits that a double holds, whatever they are; no more than so many are in as many letters.
_EXACT_DIGITS = 15

#: From here on, a double may be another whole number than its text.
_ROUNDED = 2.0**53
_INTEGER = re.compile(r"[+-]?[0-9]+")

#: pyarrow's reader of JSON ends the process on deeper nesting.
_DEEPEST = 100

#: A column, and by row what is wrong with it: the end of the message.
Read = tuple[pa.Array, dict[int, str]]


class Number(float):
    """A number of JSON with a point or an exponent.

    Attributes:
        text: Its digits, of which a double may not hold all.
    """

    text: str

    def __new__(cls, text: str) -> Number:
        """The number of a text."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    def is_exact(self) -> bool:
        """Whether the double has the digits of the text."""
        from decimal import Decimal

        if "e" not in self.text.lower() and len(self.text) <= _EXACT_DIGITS:
            return True
        return math.isfinite(self) and Decimal(self.text) == Decimal(repr(float(self)))


class Object(dict[str, Any]):
    """An object of JSON.

    Attributes:
        repeated: The keys that it has more than once.
    """

    repeated: frozenset[str] = frozenset()

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        if len(self) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.repeated |= {key}
                seen.add(key)


read_json = json.JSONDecoder(parse_float=Number, object_pairs_hook=Object).decode
"""The value of a JSON text, without loss."""


def json_text(value: Any) -> str:
    """The JSON text of a value that `read_json` returned."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)}: {json_text(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(json_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


def objects_of(lines: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch | None:
    """Objects of JSON, one a line, as pyarrow reads them; None where it refuses one, or one is not as plain as that."""
    for line in lines:
        text = line.strip()
        if not text.startswith(b"{") or not text.endswith(b"}"):  # a value could go over several lines
            return None
        if text.count(b"[") + text.count(b"{") > _DEEPEST and _depth(text) > _DEEPEST:
            return None
    content = b"\n".join(lines)
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(content),
            # A row that touches two blocks could end the process, and so could an error in a thread.
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=min(len(content) + 1, 2**31 - 1)),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        batches = table.select(schema.names).combine_chunks().to_batches()
        if len(batches) != 1 or batches[0].num_rows != len(lines):
            return None
        batches[0].validate(full=True)
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return batches[0]


def _depth(text: bytes) -> int:
    """How deeply a JSON text is nested."""
    depth = deepest = 0
    for found in re.finditer(rb'"(?:\\.|[^"\\])*"|[\[\]{}]', text):
        depth += (found[0] in b"[{") - (found[0] in b"]}")
        deepest = max(deepest, depth)
    return deepest


def scalars_of(column: pa.Array, dtype: pa.DataType) -> Read:
    """The values that texts stand for; null for none."""
    if dtype == column.type:
        return column, {}
    texts = pc.utf8_trim_whitespace(column)
    texts = pc.if_else(pc.is_in(texts, _NULLS), pa.scalar(None, texts.type), texts)
    try:
        return texts.cast(dtype), {}
    except pa.ArrowInvalid:
        values, wrong = [], {}
        for row, text in enumerate(texts):
            try:
                values.append(text.cast(dtype).as_py())
            except pa.ArrowInvalid:
                values.append(None)
                wrong[row] = f": {text.as_py()!r} does not fit into {dtype}"
        return pa.array(values, dtype), wrong


def lists_of(texts: Sequence[str | None], dtype: pa.DataType) -> Read:
    """The lists that texts are, as JSON; an empty text has none."""
    lines = [f'{{"":{text if text and not text.isspace() else "[]"}}}' for text in texts]
    with contextlib.suppress(UnicodeEncodeError):
        batch = objects_of("\n".join(lines).encode().split(b"\n"), pa.schema([("", dtype)]))
        if batch is not None and batch.num_rows == len(texts):
            return batch.column(0), {}
    lists: list[Any] = []
    wrong: dict[int, str] = {}
    for row, text in enumerate(texts):
        try:
            value = read_json(text) if text and not text.isspace() else []
        except (ValueError, RecursionError):
            value = text
        if not isinstance(value, list):
            wrong[row] = f": expected a list, as [5, 7] in JSON, got {text!r}"
            value = None
        lists.append(value)
    made, more = values_of(lists, dtype)
    return made, {**more, **wrong}


def number_of(text: str) -> Any:
    """The number that a cell is, with a point or exponent a float; the text if it is none."""
    with contextlib.suppress(ValueError):
        return int(text) if _INTEGER.fullmatch(text.strip()) else Number(text.strip())
    return text


def misfits_of(column: pa.Array, wrong: Mapping[int, str], dtype: DType, value: Callable[[int], Any]) -> dict[int, str]:
    """By row, what does not fit into a feature's element type: with the words of rows that are not texts.

    Args:
        column: The values as far as they were read, in a type that holds more.
        wrong: What was wrong with the rows that were not.
        dtype: The element type of the feature.
        value: The value of a row, without loss: a double does not tell 1700000001 from 1700000001.0.
    """
    found = dict(wrong)
    for row in {*wrong, *_perhaps_rounded(column, dtype)}:
        given = value(row)
        if types.is_list(column.type) and not isinstance(given, list):  # its reason says so
            continue
        leaves = _leaves(given)
        try:
            typed_list("", leaves, dtype, [len(leaves)])
        except RowError as error:
            found[row] = f", position {error.row}{error.reason}" if isinstance(given, list) else error.reason
    return found


def _perhaps_rounded(column: pa.Array, dtype: DType) -> list[int]:
    """The rows of doubles, or of lists of them, that may have a whole number which an element type does not hold."""
    if numpy_dtype(dtype).kind not in "fV":
        return []
    rows = np.arange(len(column))
    while types.is_list(column.type):
        rows = rows[pc.list_parent_indices(column).to_numpy()]
        column = column.flatten()
    doubles = column.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        is_rounded = doubles.astype(numpy_dtype(dtype)).astype(np.float64) != doubles
    is_suspect = np.isfinite(doubles) & ((np.abs(doubles) >= _ROUNDED) | (is_rounded & (np.floor(doubles) == doubles)))
    return [int(row) for row in np.unique(rows[is_suspect])]


def _leaves(value: Any) -> list[Any]:
    return [*itertools.chain.from_iterable(map(_leaves, value))] if isinstance(value, list) else [value]


def values_of(values: Sequence[Any], dtype: pa.DataType) -> Read:
    """Values of JSON as a column; None for those that do not fit."""
    try:
        return _array(values, dtype), {}
    except _UNFIT:
        wrong = {}
        for row, value in enumerate(values):
            try:
                _array([value], dtype)
            except _UNFIT as error:
                wrong[row] = f": {error}"
        return _array([None if row in wrong else value for row, value in enumerate(values)], dtype), wrong


def _array(values: Sequence[Any], dtype: pa.DataType) -> pa.Array:
    """Values as a column: unlike pyarrow's own way, which makes whole numbers of 5.7 and true.

    Raises:
        ValueError, pa.ArrowException, OverflowError, UnicodeEncodeError: One does not fit.
    """
    if types.is_list(dtype):
        _refuse_others(values, {list}, "a list")
        lengths = np.fromiter((len(value or ()) for value in values), np.int64, len(values))
        ends = np.zeros(len(values) + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        inner = list(itertools.chain.from_iterable(value for value in values if value))
        missing = np.fromiter((value is None for value in values), bool, len(values))
        offsets = pa.array(ends, pa.int32())
        return pa.ListArray.from_arrays(
            offsets, _array(inner, dtype.value_type), mask=pa.array(missing) if missing.any() else None
        )
    if types.is_integer(dtype):
        _refuse_others(values, {int}, str(dtype))
    elif types.is_floating(dtype):
        _refuse_others(values, {int, float, Number}, str(dtype))
        if too_large := [value for value in values if isinstance(value, Number) and math.isinf(value)]:
            raise ValueError(f"{too_large[0].text} does not fit into {dtype}")
        values = [value if value is None else float(value) for value in values]
    elif types.is_string(dtype):
        _refuse_others(values, {str}, str(dtype))
    elif types.is_boolean(dtype):
        _refuse_others(values, {bool}, str(dtype))
    return pa.array(values, dtype)


def _refuse_others(values: Sequence[Any], kinds: set[type], what: str) -> None:
    if {*map(type, values)} <= {*kinds, type(None)}:
        return
    other = next(value for value in values if value is not None and type(value) not in kinds)
    if what == "a list":
        raise ValueError(f"expected a list, got {json_text(other)}")
    raise ValueError(f"{json_text(other)} does not fit into {what}")
