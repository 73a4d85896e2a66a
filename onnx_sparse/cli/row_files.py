"""Files of rows as Arrow batches: Parquet, Arrow, CSV, JSON lines and TFRecord."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from onnx_sparse.cli.message_files import read_records
from onnx_sparse.cli.output import CommandError

#: pyarrow's reader of JSON ends the process on deeper nesting, and where a row is null.
_DEEPEST = 100
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


def batches_of(
    path: Path, rows: int, *, columns: Collection[str], lists: Collection[str], messages: str | None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in batches.

    Args:
        path: The file; its suffix says what it is.
        rows: The most rows of a batch.
        columns: The columns that are needed.
        lists: Of these, the ones with lists: CSV has them as JSON.
        messages: The column that the records of a TFRecord file are.

    Raises:
        CommandError: The file cannot be read, or is of no known kind.
    """
    read = _READERS.get(_kind(path))
    if read is None:
        raise CommandError(f"{path}: its kind is not known; {', '.join(_READERS)} are read")
    with _errors(path):
        for batch in read(path, rows, columns, lists, messages):
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


def _csv(path: Path, rows: int, columns: Collection[str], lists: Collection[str], *_: Any) -> Iterator[pa.RecordBatch]:
    texts = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(lists, pa.string()), strings_can_be_null=False)
    row = 0
    for batch in pyarrow.csv.open_csv(path, convert_options=texts):
        names = batch.schema.names
        made = [
            _lists_of(f"{path}, column {name!r}", row, column) if name in lists else column
            for name, column in zip(names, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(made, names)
        row += batch.num_rows


def _lists_of(where: str, first: int, column: Any) -> Any:
    """Lists that are written as JSON; an empty cell has none."""
    parsed = []
    for row, text in enumerate(column.to_pylist(), first):
        try:
            value = json.loads(text) if text and text.strip() else []
        except (ValueError, RecursionError):
            value = text
        if not isinstance(value, list):
            raise CommandError(f"{where}, row {row}: {text!r} is no list; lists are JSON: [5, 7]")
        parsed.append(value)
    try:
        return pa.array(parsed)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise CommandError(f"{where}, rows {first} to {first + len(parsed) - 1}: {error}") from error


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
    path: Path, rows: int, columns: Collection[str], lists: Collection[str], messages: str | None
) -> Iterator[pa.RecordBatch]:
    if messages is None:
        raise CommandError(f"{path}: the model takes no serialized messages")
    yield pa.RecordBatch.from_pydict({messages: pa.array(read_records(path), pa.binary())})


_READERS: dict[str, Callable[..., Iterator[pa.RecordBatch]]] = {
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".csv": _csv,
    ".jsonl": _json,
    ".ndjson": _json,
    ".tfrecord": _records,
}
