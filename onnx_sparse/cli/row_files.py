"""Files of rows as Arrow batches: Parquet, Arrow, CSV, JSON lines and TFRecord."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from onnx_sparse.cli.message_files import read_records
from onnx_sparse.cli.output import CommandError

#: pyarrow's reader of JSON ends the process on deeper nesting, and where a row is null.
_DEEPEST = 100
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
#: What a cell of CSV holds where there is no value.
_NULLS = pa.array(pyarrow.csv.ConvertOptions().null_values)
#: The errors of pyarrow for a Python value that is not of a type.
_UNFIT = (pa.ArrowException, OverflowError, UnicodeEncodeError)


@dataclass(frozen=True)
class BadRow:
    """A row of a file of text in which a cell is not what its column holds.

    Attributes:
        row: The row, with texts in that column.
        reason: The column, the number of the row, and what is wrong.
    """

    row: pa.RecordBatch
    reason: str


def batches_of(
    path: Path,
    rows: int,
    *,
    columns: Collection[str],
    types: Mapping[str, pa.DataType],
    messages: str | None,
) -> Iterator[pa.RecordBatch | BadRow]:
    """The rows of a file, in batches. A file that lacks a column is a batch without rows, for the error to list all.

    Args:
        path: The file; its suffix says what it is.
        rows: The most rows of a batch.
        columns: The columns that are needed.
        types: Of these, the types that the model expects: CSV does not tell them, and has lists as JSON.
        messages: The column that the records of a TFRecord file are.

    Raises:
        CommandError: The file cannot be read, or is of no known kind.
    """
    read = _READERS.get(_kind(path))
    if read is None:
        raise CommandError(f"{path}: its kind is not known; {', '.join(_READERS)} are read")
    with _errors(path):
        for batch in read(path, rows, columns, types, messages):
            if isinstance(batch, BadRow):
                yield batch
                continue
            batch.schema.names  # noqa: B018  # raises where one is not UTF-8
            batch.validate(full=True)  # offsets beyond the values, in a damaged file, would end the process
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
            if not batch.num_rows:
                yield batch  # for its columns


def count_of(path: Path) -> int | None:
    """The number of rows of a file that says so."""
    if _kind(path) != ".parquet":
        return None
    with _errors(path):
        return int(pq.ParquetFile(path).metadata.num_rows)


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last for the name of a column
        reason, _, _ = str(error).partition("\n")
        raise CommandError(f"{path} cannot be read: {reason}") from error


def _parquet(path: Path, rows: int, columns: Collection[str], *_: Any) -> Iterator[pa.RecordBatch]:
    file = pq.ParquetFile(path)
    if not set(file.schema_arrow.names).issuperset(columns):
        yield _no_rows(file.schema_arrow)
        return
    needed = [field for field in file.schema_arrow if field.name in columns]
    if not file.metadata.num_rows:
        yield _no_rows(pa.schema(needed))
    read = 0
    for batch in file.iter_batches(rows, columns=[field.name for field in needed]):
        read += batch.num_rows
        yield batch
    if read != file.metadata.num_rows:  # pyarrow ends a damaged column early and says nothing
        raise CommandError(f"{path} cannot be read: {read} of its {file.metadata.num_rows} rows are there")


def _arrow(path: Path, *_: Any) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source:
        try:
            file = pa.ipc.open_file(source)
        except pa.ArrowInvalid:  # a stream
            yield from pa.ipc.open_stream(source)
            return
        for number in range(file.num_record_batches):
            yield file.get_batch(number)
        if not file.num_record_batches:
            yield _no_rows(file.schema)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _csv(
    path: Path, rows: int, columns: Collection[str], types: Mapping[str, pa.DataType], *_: Any
) -> Iterator[pa.RecordBatch | BadRow]:
    with pyarrow.csv.open_csv(path) as reader:
        guessed = reader.schema
    # pyarrow takes the type of a column from its first rows and refuses a file with others, also in columns that nobody
    # needs. So it reads texts, but for columns that are only kept.
    texts = {name: pa.string() for name in guessed.names if name in types or name not in columns}
    texts |= {field.name: field.type for field in guessed if field.type == pa.binary() and field.name not in types}
    options = pyarrow.csv.ConvertOptions(column_types=texts, strings_can_be_null=False)
    with pyarrow.csv.open_csv(path, convert_options=options) as reader:
        row = 0
        for batch in reader:
            yield from _read_cells(batch, row, types)
            row += batch.num_rows
        if not row:
            yield from _read_cells(_no_rows(reader.schema), 0, types)


def _read_cells(
    batch: pa.RecordBatch, first: int, types: Mapping[str, pa.DataType]
) -> Iterator[pa.RecordBatch | BadRow]:
    """A batch of texts with the values that they stand for: the rows before, between and after bad ones, and these."""
    bad: dict[int, str] = {}
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in types:
            read = _lists_of if pa.types.is_list(types[name]) else _values_of
            column, wrong = read(column, types[name])
            for row, problem in wrong.items():
                bad.setdefault(row, f"column {name!r}, row {first + row}: {problem}")
        columns.append(column)
    whole = pa.RecordBatch.from_arrays(columns, batch.schema.names)
    begin = 0
    for row in sorted(bad):
        if row > begin:
            yield whole.slice(begin, row - begin)
        yield BadRow(batch.slice(row, 1), bad[row])
        begin = row + 1
    yield whole.slice(begin)


def _values_of(column: Any, dtype: pa.DataType) -> tuple[Any, dict[int, str]]:
    """The values that texts stand for, null for none, and by row what is wrong with other texts."""
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
                wrong[row] = f"{text.as_py()!r} does not fit into {dtype}"
        return pa.array(values, dtype), wrong


def _lists_of(column: Any, dtype: pa.DataType) -> tuple[Any, dict[int, str]]:
    """The lists that texts are, as JSON, and by row what is wrong with other texts; an empty cell has none."""
    lists, wrong = [], {}
    for row, text in enumerate(column.to_pylist()):
        try:
            value = json.loads(text) if text and text.strip() else []
        except (ValueError, RecursionError):
            value = text
        if not isinstance(value, list):
            wrong[row] = f"{text!r} is no list; lists are JSON: [5, 7]"
        lists.append([] if row in wrong else value)
    try:
        return pa.array(lists, dtype), wrong
    except _UNFIT:
        for row, value in enumerate(lists):
            try:
                pa.array([value], dtype)
            except _UNFIT as error:
                wrong[row] = str(error)
        return pa.array([[] if row in wrong else value for row, value in enumerate(lists)], dtype), wrong


def _json(path: Path, *_: Any) -> Iterator[pa.RecordBatch]:
    with pa.input_stream(str(path)) as file:  # decompressed
        content = file.read()
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        text = line.strip()
        if text and not text.startswith(b"{"):
            raise CommandError(f"{path}, line {number} is no JSON object")
        if text.count(b"[") + text.count(b"{") > _DEEPEST and _depth(text) > _DEEPEST:
            raise CommandError(f"{path}, line {number} is nested too deeply")
    yield from pyarrow.json.read_json(pa.BufferReader(content)).to_batches()


def _depth(text: bytes) -> int:
    """How deeply a JSON text is nested."""
    depth = deepest = 0
    for found in re.finditer(rb'"(?:\\.|[^"\\])*"|[\[\]{}]', text):
        depth += (found[0] in b"[{") - (found[0] in b"]}")
        deepest = max(deepest, depth)
    return deepest


def _records(
    path: Path, rows: int, columns: Collection[str], types: object, messages: str | None
) -> Iterator[pa.RecordBatch]:
    if messages is None:
        raise CommandError(f"{path}: the model takes no serialized messages")
    yield pa.RecordBatch.from_pydict({messages: pa.array(read_records(path), pa.binary())})


_READERS: dict[str, Callable[..., Iterator[pa.RecordBatch | BadRow]]] = {
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".csv": _csv,
    ".jsonl": _json,
    ".ndjson": _json,
    ".tfrecord": _records,
}
