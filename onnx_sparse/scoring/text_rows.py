"""Rows of CSV files and of JSON lines, in batches of bounded memory, whatever their length."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import types

from onnx_sparse.schemas.declaration import DType
from onnx_sparse.scoring.kept_values import KeptType, WidenedError, kept_column, widened
from onnx_sparse.scoring.text_cells import (
    Object,
    lists_of,
    misfits_of,
    number_of,
    objects_of,
    read_json,
    scalars_of,
    values_of,
)

#: The bytes of text that are read at once; a longer row is read whole.
_PART = 1 << 22
#: The bytes of one cell of CSV, beyond which a file is taken for damaged: a quotation mark was lost.
_LONGEST_CELL = 1 << 30
#: Types of kept columns that pyarrow's reader of JSON reads without loss.
_FAST = (pa.string(), pa.int64(), pa.bool_(), pa.null())


@dataclass(frozen=True)
class RowBatch:
    """Rows of a file.

    Attributes:
        first: The number of the first row.
        rows: The rows: the columns that are needed.
        raw: What a part of the rows is in the file, by their positions in the batch, for files of bad rows.
        bad: By position, the rows of text that are not what their columns hold, with the reason.
    """

    first: int
    rows: pa.RecordBatch
    raw: Callable[[Sequence[int]], pa.Table]
    bad: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """What is read of a file.

    Attributes:
        types: The columns of features, with types that hold the values of text.
        keep: The columns that are kept.
        asked: The types of kept columns that are asked for.
        messages: The column that the records of a TFRecord file are; None if the model takes none.
        kept: The types of kept columns of JSON, as far as they are known from the file.
        delimiter: What separates the cells of CSV.
        elements: The element types of the columns of features, which must hold whole numbers exactly.
    """

    types: Mapping[str, pa.DataType]
    keep: Sequence[str] = ()
    asked: Mapping[str, pa.DataType] = field(default_factory=dict)
    messages: str | None = None
    kept: Mapping[str, KeptType] = field(default_factory=dict)
    delimiter: str = ","
    elements: Mapping[str, DType] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """All columns that are needed."""
        return list(dict.fromkeys([*self.types, *([] if self.messages is None else [self.messages]), *self.keep]))

    def without(self, columns: Collection[str]) -> Wanted:
        """The same without columns that the file does not have to have."""
        types = {name: dtype for name, dtype in self.types.items() if name not in columns}
        messages = None if self.messages in columns else self.messages
        elements = {name: dtype for name, dtype in self.elements.items() if name in types}
        keep = [name for name in self.keep if name not in columns]
        return replace(self, types=types, keep=keep, messages=messages, elements=elements)

    @property
    def typed(self) -> dict[str, pa.DataType]:
        """The columns whose types are known before a file is read."""
        return {**{name: dtype for name, dtype in self.asked.items() if name in self.keep}, **self.types}


def cells_of(
    texts: Sequence[str | None], dtype: pa.DataType, element: DType | None = None
) -> tuple[pa.Array, dict[int, str]]:
    """The values that texts stand for, with lists as JSON; and by row what is wrong with other texts.

    Args:
        texts: The texts.
        dtype: The type of the values.
        element: The element type of a feature, which must hold whole numbers exactly; None for columns that are kept.
    """
    read: Callable[[str], Any]
    if types.is_list(dtype):
        (made, wrong), read = lists_of(texts, dtype), read_json
    else:
        column, wrong = _texts(texts)
        made, more = scalars_of(column, dtype)
        wrong, read = {**more, **wrong}, number_of
    if element is not None:
        wrong = misfits_of(made, wrong, element, lambda row: _value(texts[row] or "", read))
    return made, wrong


def _value(text: str, read: Callable[[str], Any]) -> Any:
    """The value of a cell, or an empty list, of which nothing is wrong, where the cell cannot be read."""
    try:
        return read(text)
    except (ValueError, RecursionError):
        return []


def _texts(texts: Sequence[str | None]) -> tuple[pa.Array, dict[int, str]]:
    """A column of texts, and by row which are none: bytes that are not UTF-8 came as surrogates."""
    try:
        return pa.array(texts, pa.string()), {}
    except UnicodeEncodeError:
        wrong = {row: f": {text!r} is not UTF-8" for row, text in enumerate(texts) if text and not _is_text(text)}
        return pa.array([None if row in wrong else text for row, text in enumerate(texts)], pa.string()), wrong


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(text: str) -> str:
    """A text of a file, with the bytes that are not UTF-8 escaped."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


# --- CSV --------------------------------------------------------------------------------------------------------------


def csv_rows(file: BinaryIO, rows: int, wanted: Wanted) -> Iterator[RowBatch]:
    """The rows of a CSV file: the first has the names of the columns; cells are texts, and lists are JSON."""
    lines = _Lines(io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline=""))
    reader = _LongCells(csv.reader(lines, strict=True, delimiter=wanted.delimiter))
    header = next((row for row in _cells(reader) if row), None)
    names = wanted.columns if header is None else [name if _is_text(name) else _shown(name) for name in header]
    places = {name: [place for place, other in enumerate(names) if other == name] for name in wanted.columns}
    if any(len(found) != 1 for found in places.values()):
        other = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
        if other is not None:
            raise pa.ArrowInvalid(f"its first line has one cell; --csv-delimiter {other!r} would separate it")
        yield _no_rows(names)
        return
    maker = _CsvBatches(names, {name: place for name, (place,) in places.items()}, wanted)
    first, lines.size = 0, 0
    held: list[list[str]] = []
    bad: dict[int, str] = {}
    while header is not None:
        begin = lines.number + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            if "end of data" in str(error):  # all rows since are in one cell
                raise pa.ArrowInvalid(f"the quotation mark in row {first + len(held)} has no end") from error
            row = [lines.last.rstrip("\r\n")]
            bad[len(held)] = f"row {first + len(held)}{lines.since(begin)} is not CSV: {error}"
        if row is None:
            break
        if not row:
            continue
        if len(row) != len(names) and len(held) not in bad:
            place = f"row {first + len(held)}{lines.since(begin)}"
            bad[len(held)] = f"{place} has {len(row)} cells; the first line has {len(names)}"
        held.append(row)
        if len(held) == rows or lines.size >= _PART:
            yield maker.batch(first, held, bad)
            first, held, bad, lines.size = first + len(held), [], {}, 0
    if held or not first:
        yield maker.batch(first, held, bad)


class _Lines:
    """The lines of a text, with the last one and its number, and the size of those since `size` was set."""

    def __init__(self, text: Iterator[str]) -> None:
        self._text = text
        self.last, self.number, self.size = "", 0, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._text:
            self.last = line
            self.number += 1
            self.size += len(line)
            yield line

    def since(self, begin: int) -> str:
        """The lines of a row that has several: a quotation mark may have been lost, and rows with it."""
        return f", lines {begin} to {self.number}," if self.number > begin else ""


class _LongCells:
    """Rows with cells of any length. Python has one limit for all readers of a process, which stays the caller's."""

    _limit = threading.Lock()

    def __init__(self, rows: Iterator[list[str]]) -> None:
        self._rows = rows

    def __iter__(self) -> _LongCells:
        return self

    def __next__(self) -> list[str]:
        with self._limit:
            before = csv.field_size_limit(_LONGEST_CELL)
            try:
                return next(self._rows)
            finally:
                csv.field_size_limit(before)


def _cells(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """The rows of a header that may be no CSV; then it is no header either."""
    try:
        yield from reader
    except csv.Error as error:
        raise pa.ArrowInvalid(f"its first line is not CSV: {error}") from error


class _CsvBatches:
    """Makes batches of rows of cells."""

    def __init__(self, names: Sequence[str], places: Mapping[str, int], wanted: Wanted) -> None:
        self._names, self._places, self._wanted = names, places, wanted

    def batch(self, first: int, rows: list[list[str]], bad: dict[int, str]) -> RowBatch:
        reasons = dict(bad)
        columns = {}
        for name, place in self._places.items():
            cells = [None if number in bad else row[place] for number, row in enumerate(rows)]
            dtype = self._wanted.typed.get(name, pa.string())
            columns[name], wrong = cells_of(cells, dtype, self._wanted.elements.get(name))
            reasons = {**_placed(name, first, wrong), **reasons}
        return RowBatch(first, pa.RecordBatch.from_pydict(columns), lambda some: self._raw(rows, some), reasons)

    def _raw(self, rows: Sequence[Sequence[str]], some: Sequence[int]) -> pa.Table:
        """Rows as texts: without the cells that are missing, and with those that are too many in the last column."""
        last = len(self._names) - 1
        columns: list[list[str | None]] = [[] for _ in self._names]
        for number in some:
            row = list(map(_shown, rows[number]))
            row[last:] = [self._wanted.delimiter.join(row[last:])] if len(row) > last else []
            for place, column in enumerate(columns):
                column.append(row[place] if place < len(row) else None)
        return pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], list(self._names))


def _no_rows(names: Sequence[str]) -> RowBatch:
    """A batch without rows, of a file that lacks a column."""
    empty = pa.RecordBatch.from_arrays([pa.array([], pa.string())] * len(names), list(names))
    return RowBatch(0, empty, lambda some: pa.Table.from_batches([empty]))


# --- JSON lines -------------------------------------------------------------------------------------------------------


def json_rows(file: BinaryIO, rows: int, wanted: Wanted) -> Iterator[RowBatch]:
    """The rows of JSON lines: an object each; blank lines are none.

    Raises:
        WidenedError: The values of a kept column do not fit into the type of those before.
    """
    reader = _JsonBatches(wanted)
    first = 0
    for numbers, lines in _json_lines(file):
        for begin in range(0, len(lines), rows):
            part = slice(begin, begin + rows)
            yield reader.batch(first, numbers[part], lines[part])
            first += len(lines[part])
    if not first:
        yield reader.batch(0, [], [])
    elif reader.missing():
        yield _no_rows(reader.names)


def _json_lines(file: BinaryIO) -> Iterator[tuple[list[int], list[bytes]]]:
    """Lines that are not blank, in parts, each with its number in the file from 1 on."""
    parts: list[bytes] = []  # of a line that has not ended yet
    number = 1
    is_first = True
    while True:
        block = file.read(_PART)
        if is_first:
            block, is_first = block.removeprefix(b"\xef\xbb\xbf"), False
        if block and b"\n" not in block:
            parts.append(block)
            continue
        complete, newline, rest = block.rpartition(b"\n")
        content = b"".join([*parts, complete, newline]) if block else b"".join(parts)
        parts = [rest]
        lines = content.split(b"\n")
        if newline:
            lines.pop()
        there = [(number + at, line) for at, line in enumerate(lines) if line and not line.isspace()]
        number += len(lines)
        if there:
            yield [at for at, _ in there], [line for _, line in there]
        if not block:
            return


class _JsonBatches:
    """Makes batches of lines."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._kept: dict[str, KeptType] = {
            name: wanted.kept.get(name, pa.null()) for name in wanted.keep if name not in wanted.typed
        }
        self._is_begun = False
        self._seen: set[str] = set()
        #: The keys of some rows, for an error that lists them.
        self.names: list[str] = []

    def missing(self) -> list[str]:
        """The columns that no row had: their names may be misspelled, and a null list would pass for an empty one."""
        return [name for name in self._wanted.columns if name not in self._seen]

    def batch(self, first: int, numbers: Sequence[int], lines: Sequence[bytes]) -> RowBatch:
        def raw(some: Sequence[int]) -> pa.Table:
            texts = [lines[number].decode(errors="backslashreplace") for number in some]
            return pa.table({"line": pa.array(texts, pa.string())})

        rows = self._fast(lines) if self._is_begun or not self._kept else None
        bad: dict[int, str] = {}
        if rows is None:
            rows, bad = self._slow(first, numbers, lines)
        else:
            for name, dtype in self._wanted.elements.items():
                wrong = misfits_of(rows.column(name), {}, dtype, partial(_value_of_key, name, lines))
                bad = {**_placed(name, first, wrong), **bad}
        self._is_begun = True
        return RowBatch(first, rows, raw, bad)

    def _fast(self, lines: Sequence[bytes]) -> pa.RecordBatch | None:
        """The rows as pyarrow reads them; None where it refuses one, or could lose a part of a value."""
        schema = {**self._wanted.typed, **self._kept}
        if not all(dtype in _FAST for dtype in self._kept.values()):
            return None
        batch = objects_of(lines, pa.schema([(name, schema[name]) for name in self._wanted.columns]))
        if batch is None:
            return None
        content = b"\n".join(lines) if self.missing() else b""
        for name in self.missing():
            if batch.column(name).null_count < len(lines) or json.dumps(name).encode() in content:
                self._seen.add(name)
        if not self.names:
            self.names = list(_object(lines[0], ())[0])
        return batch

    def _slow(
        self, first: int, numbers: Sequence[int], lines: Sequence[bytes]
    ) -> tuple[pa.RecordBatch, dict[int, str]]:
        """The rows, and what is wrong with those that are none."""
        objects, bad = [], {}
        for row, (number, line) in enumerate(zip(numbers, lines, strict=True)):
            value, reason = _object(line, self._wanted.columns)
            objects.append(value)
            if reason is not None:
                bad[row] = f"line {number} {reason}"
            self._seen.update(value)
            self.names = self.names or list(value)
        columns = {}
        for name in self._wanted.columns:
            values = [value.get(name) for value in objects]
            dtype = self._wanted.typed.get(name)
            if dtype is not None:
                columns[name], wrong = values_of(values, dtype)
                if name in self._wanted.elements:
                    wrong = misfits_of(columns[name], wrong, self._wanted.elements[name], values.__getitem__)
            else:
                columns[name], wrong = self._kept_column(name, values)
            bad = {**_placed(name, first, wrong), **bad}
        return pa.RecordBatch.from_pydict(columns), bad

    def _kept_column(self, name: str, values: list[Any]) -> tuple[pa.Array, dict[int, str]]:
        wrong = {}
        for row, value in enumerate(values):
            if isinstance(value, str) and not _is_text(value):
                values[row], wrong[row] = None, f": {json.dumps(value)} is not text"
        dtype = widened(self._kept[name], values)
        if dtype != self._kept[name]:
            self._kept[name] = dtype
            if self._is_begun:
                raise WidenedError(self._kept)
        return kept_column(values, dtype), wrong


def _placed(column: str, first: int, wrong: Mapping[int, str]) -> dict[int, str]:
    """What is wrong with rows of a column, with their place in the file."""
    return {row: f"column {column!r}, row {first + row}{reason}" for row, reason in wrong.items()}


def _value_of_key(key: str, lines: Sequence[bytes], row: int) -> Any:
    return _object(lines[row], ())[0].get(key)


def _object(line: bytes, columns: Sequence[str]) -> tuple[dict[str, Any], str | None]:
    """The object of a line, and what is wrong with it."""
    try:
        value = read_json(line.decode(errors="surrogateescape").strip())
    except RecursionError:
        return {}, "is nested too deeply"
    except ValueError as error:
        is_object = line.lstrip().startswith(b"{")
        return {}, f"is not JSON: {error}" if is_object else "is not a JSON object"
    if not isinstance(value, Object):
        return {}, "is not a JSON object"
    if repeated := [name for name in columns if name in value.repeated]:
        return {}, f"has the key {repeated[0]!r} twice"
    return value, None
