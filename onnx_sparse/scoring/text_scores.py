"""Scores as text, a batch at a time: CSV, JSON lines, or a JSON array of objects.

Numbers are the shortest text of the same value of their type. Lists and structures in CSV are JSON, as in rows.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import date, time
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

#: The ends of names of files of text, and how these are written.
FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl"}
#: What JSON has for the texts of numpy's floats, as in rows and requests.
_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class TextScores:
    """A file of scores that is written.

    Args:
        file: The file.
        form: `csv`, `json` or `jsonl`.
        names: The names of the columns.
        delimiter: What separates the cells of CSV.
        begun: Whether rows have been written before: the header is not repeated.
    """

    def __init__(self, file: BinaryIO, form: str, names: Sequence[str], delimiter: str, *, begun: bool = False) -> None:
        self._file, self._form, self._names, self._delimiter = file, form, names, delimiter
        self._between = ",\n" if begun else "[\n"
        if form == "csv" and not begun:
            self._write(self._cells([list(names)]))

    def write_table(self, table: pa.Table) -> None:
        """Write some rows."""
        for batch in table.combine_chunks().to_batches():
            if self._form == "csv":
                self._write(self._cells(zip(*map(_cells, batch.columns), strict=True)))
                continue
            keys = [f"{json.dumps(name, ensure_ascii=False)}: " for name in self._names]
            columns = [[key + text for text in _texts(c)] for key, c in zip(keys, batch.columns, strict=True)]
            lines = ["{" + ", ".join(row) + "}" for row in zip(*columns, strict=True)]
            if self._form == "jsonl":
                self._write("".join(f"{line}\n" for line in lines))
            elif lines:
                self._write(self._between + ",\n".join(lines))
                self._between = ",\n"

    def close(self) -> None:
        """Write the end."""
        if self._form == "json":
            self._write("[]\n" if self._between == "[\n" else "\n]\n")

    def __enter__(self) -> TextScores:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()

    def _cells(self, rows: Any) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n").writerows(rows)
        return text.getvalue()

    def _write(self, text: str) -> None:
        self._file.write(text.encode())


def _cells(column: pa.Array) -> list[str]:
    """The values of a column as cells: texts as they are, and what is missing empty."""
    column = _stored(column)
    if pa.types.is_floating(column.type):
        texts = column.fill_null(0).to_numpy(zero_copy_only=False).astype(str).tolist()
    elif _is_text(column.type) or not pa.types.is_nested(column.type):
        texts = [value if isinstance(value, str) else _unquoted(value) for value in column.to_pylist()]
    else:
        texts = _texts(column)
    return [text if is_there else "" for text, is_there in zip(texts, column.is_valid().to_pylist(), strict=True)]


def _unquoted(value: Any) -> str:
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _texts(column: pa.Array) -> list[str]:
    """The values of a column as JSON."""
    column = _stored(column)
    kind = column.type
    if pa.types.is_floating(kind):
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(str).tolist()
        texts = [_FLOATS.get(number, number) for number in numbers]
    elif pa.types.is_struct(kind):
        names = [f"{json.dumps(kind[at].name, ensure_ascii=False)}: " for at in range(kind.num_fields)]
        children = [_texts(child) for child in column.flatten()]
        rows: Any = zip(*children, strict=True) if children else ((),) * len(column)
        texts = ["{" + ", ".join(map(str.__add__, names, row)) + "}" for row in rows]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        values: Iterator[str] = iter(_texts(column.flatten()))
        lengths = pc.list_value_length(column).fill_null(0).to_pylist()
        is_valid = column.is_valid().to_pylist()
        texts = [
            "[" + ", ".join(next(values) for _ in range(n if is_there else 0)) + "]"
            for n, is_there in zip(lengths, is_valid, strict=True)
        ]
    else:
        texts = [json.dumps(value, ensure_ascii=False, default=_plain) for value in map(_plain, column.to_pylist())]
    return [text if is_there else "null" for text, is_there in zip(texts, column.is_valid().to_pylist(), strict=True)]


def _stored(column: pa.Array) -> pa.Array:
    """A column without an encoding or extension of its own."""
    if isinstance(column, pa.ExtensionArray):
        return _stored(column.storage)
    if pa.types.is_dictionary(column.type):
        return _stored(column.dictionary_decode())
    return pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    tests: tuple[Callable[[pa.DataType], bool], ...] = (pa.types.is_string, pa.types.is_large_string)
    return any(test(kind) for test in tests)


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes as in requests, times as ISO 8601 writes them, and other things as their text."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, (date, time)):
        return value.isoformat()
    return value if value is None or isinstance(value, (bool, int, float, str, list, dict, tuple)) else str(value)
