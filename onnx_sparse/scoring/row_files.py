"""Files of rows as Arrow batches of bounded memory: Parquet, Arrow, CSV, JSON lines and TFRecord."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from onnx_sparse.errors import CommandError
from onnx_sparse.rows.message_files import DamagedError, records_of
from onnx_sparse.scoring.places import COMPRESSED, Place
from onnx_sparse.scoring.row_sources import Source
from onnx_sparse.scoring.text_rows import RowBatch, Wanted, cells_of, csv_rows, json_rows

#: The bytes of rows that are in memory at once, beyond a single row.
_MOST_BYTES = 64 << 20
#: The bytes that are read at once of each column of a Parquet file.
_BUFFER = 1 << 20
#: The bytes of row groups of a store that are fetched ahead.
_AHEAD = 128 << 20
#: Further ends of names that say how a file is compressed inside.
_CODECS = (*COMPRESSED, ".snappy", ".gzip", ".zstd", ".brotli")


class UnreadableError(CommandError):
    """A file is damaged or cannot be opened; others may be sound."""


def batches_of(source: Source, rows: int, wanted: Wanted) -> Iterator[RowBatch]:
    """The rows of a file, in batches. A file that lacks a column is a batch without rows, for the error to list all.

    Args:
        source: The file; its suffix says what it is.
        rows: The most rows of a batch.
        wanted: What is read of it.

    Raises:
        UnreadableError: The file cannot be read.
        CommandError: It is of no known kind.
        WidenedError: As `json_rows`.
    """
    read = _READERS.get(kind_of(source.place.name))
    if read is None:
        raise CommandError(f"{source}: expected a name that ends in {', '.join(_READERS)}")
    partitions = {name: text for name, text in source.partitions.items() if name in wanted.columns}
    own = wanted.without(partitions)
    if not own.columns:
        raise CommandError(
            f"{source}: no column that is needed is in the file; its folders have {', '.join(partitions)}"
        )
    with _errors(source.place):
        for batch in read(source.place, rows, own):
            yield _with_partitions(batch, partitions, wanted) if partitions else batch


def kind_of(name: str) -> str:
    """The kind of rows that a file has by its name, as `.csv`; empty if it has none."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    while suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in _READERS else ""


def stem_of(name: str) -> str:
    """The name of a file without what says its kind and compression."""
    stem, suffix = os.path.splitext(name)
    while suffix.lower() in (*_READERS, *_CODECS) and stem:
        name = stem
        stem, suffix = os.path.splitext(name)
    return name


def count_of(source: Source) -> int | None:
    """The number of rows of a file that says so."""
    if kind_of(source.place.name) != ".parquet":
        return None
    try:
        with source.place.open() as file:
            return int(pq.ParquetFile(file).metadata.num_rows)
    except (pa.ArrowException, OSError):  # said when it is read
        return None


@contextmanager
def _errors(place: Place) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason, _, _ = str(error).partition("\n")
        raise UnreadableError(f"{place} cannot be read: {reason}") from error


def _with_partitions(batch: RowBatch, partitions: dict[str, str | None], wanted: Wanted) -> RowBatch:
    """The rows with the columns of the folders that the file is in."""
    rows, bad = batch.rows, dict(batch.bad)
    for name, text in partitions.items():
        column, wrong = cells_of([text], wanted.typed.get(name, pa.string()), wanted.elements.get(name))
        for reason in wrong.values():
            bad |= {row: f"column {name!r}, a folder{reason}" for row in range(rows.num_rows) if row not in bad}
        rows = rows.append_column(name, pa.repeat(column[0], rows.num_rows))
    return RowBatch(batch.first, rows, batch.raw, bad)


def _whole(
    batches: Iterator[pa.RecordBatch], rows: int, done: Callable[[], object] = lambda: None
) -> Iterator[RowBatch]:
    """Batches of a format with types, cut into parts of bounded memory."""
    first = 0
    for batch in batches:
        batch.schema.names  # noqa: B018  # raises where one is not UTF-8
        batch.validate()  # offsets beyond the values, in a damaged file, would end the process
        size = max(1, min(rows, _MOST_BYTES * batch.num_rows // max(batch.nbytes, 1)))
        in_parts = size < batch.num_rows and not any(map(_has_lists_of_texts, batch.schema.types))
        if not in_parts:
            batch.validate(full=True)
        for begin in range(0, max(batch.num_rows, 1), size):  # also one without rows: for its columns
            part = batch.slice(begin, size)
            if in_parts:  # what is not needed yet stays on the disk
                part.validate(full=True)
            yield RowBatch(first, part, _slices_of(part))
            first += part.num_rows
            done()


def _has_lists_of_texts(dtype: pa.DataType) -> bool:
    """Whether a part of a column is examined with all the values of the column: those in lists that have offsets."""
    types = pa.types
    if not types.is_nested(dtype):
        return False
    inner = [dtype.field(number).type for number in range(dtype.num_fields)]
    return not all(types.is_primitive(kind) for kind in inner)


def _slices_of(batch: pa.RecordBatch) -> Callable[[Sequence[int]], pa.Table]:
    """Rows of a batch by their positions; pyarrow cannot take those of all types."""
    return lambda some: pa.Table.from_batches([batch.slice(number, 1) for number in some], batch.schema)


# --- Parquet and Arrow ------------------------------------------------------------------------------------------------


def _parquet(place: Place, rows: int, wanted: Wanted) -> Iterator[RowBatch]:
    with place.open() as source:
        metadata = pq.read_metadata(source)
        largest = max((metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)), default=0)
        # Pages are read one by one: pyarrow would read all row groups ahead. A store gives a row group at once.
        ahead = bool(place.store) and largest <= _AHEAD
        file = pq.ParquetFile(
            source,
            metadata=metadata,
            pre_buffer=ahead,
            buffer_size=0 if ahead else _BUFFER,
            page_checksum_verification=True,
        )
        yield from _whole(_parquet_batches(file, rows, wanted, place), rows)


def _parquet_batches(file: Any, rows: int, wanted: Wanted, place: Place) -> Iterator[pa.RecordBatch]:
    metadata, schema = file.metadata, file.schema_arrow
    needed = [field.name for field in schema if field.name in wanted.columns]
    if not {*schema.names}.issuperset(wanted.columns) or len(needed) > len({*needed}):
        yield _no_rows(schema)
        return
    if not metadata.num_rows:
        yield _no_rows(pa.schema([field for field in schema if field.name in needed]))
    read = 0
    for groups, size in _groups(metadata, rows):
        for batch in file.iter_batches(size, row_groups=groups, columns=needed):
            read += batch.num_rows
            yield batch
    if read != metadata.num_rows:  # pyarrow ends a damaged column early and says nothing
        raise UnreadableError(f"{place} cannot be read: {read} of its {metadata.num_rows} rows are there")


def _groups(metadata: Any, rows: int) -> Iterator[tuple[list[int], int]]:
    """Row groups that are read together, and the rows of a batch of them."""
    groups: list[int] = []
    count = size = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        groups.append(number)
        count, size = count + group.num_rows, size + group.total_byte_size
        if count >= rows or size >= _AHEAD or number == metadata.num_row_groups - 1:
            yield groups, max(1, min(rows, _MOST_BYTES * count // max(size, 1)))
            groups, count, size = [], 0, 0


def _arrow(place: Place, rows: int, wanted: Wanted) -> Iterator[RowBatch]:
    if place.store or not hasattr(mmap.mmap, "madvise") or not os.path.getsize(place.path):
        with place.open() as source:
            yield from _whole(_arrow_batches(source), rows)
        return
    with open(place.path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed with the last batch of it
    # Pages that have been read are given back, also of a file of one large batch.
    source = pa.BufferReader(pa.py_buffer(mapped))
    yield from _whole(_arrow_batches(source), rows, lambda: mapped.madvise(mmap.MADV_DONTNEED))


def _arrow_batches(source: Any) -> Iterator[pa.RecordBatch]:
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:  # a stream
        source.seek(0)
        stream = pa.ipc.open_stream(source)
        is_empty = True
        for batch in stream:
            is_empty = False
            yield batch
        if is_empty:
            yield _no_rows(stream.schema)
        return
    for number in range(file.num_record_batches):
        yield file.get_batch(number)
    if not file.num_record_batches:
        yield _no_rows(file.schema)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


# --- Texts and messages -----------------------------------------------------------------------------------------------


def _require_text(place: Place, wanted: Wanted) -> None:
    if wanted.messages is not None:
        raise CommandError(
            f"{place}: column {wanted.messages!r} is serialized messages, which text does not hold; give a TFRecord "
            "file, or Parquet or Arrow with a column of bytes"
        )


def _csv(place: Place, rows: int, wanted: Wanted) -> Iterator[RowBatch]:
    _require_text(place, wanted)
    with place.open_stream() as file:
        yield from csv_rows(file, rows, wanted)


def _tsv(place: Place, rows: int, wanted: Wanted) -> Iterator[RowBatch]:
    yield from _csv(place, rows, replace(wanted, delimiter="\t"))


def _json(place: Place, rows: int, wanted: Wanted) -> Iterator[RowBatch]:
    _require_text(place, wanted)
    with place.open_stream() as file:
        yield from json_rows(file, rows, wanted)


def _records(place: Place, rows: int, wanted: Wanted) -> Iterator[RowBatch]:
    if wanted.messages is None:
        raise CommandError(f"{place}: the model takes no serialized messages")
    first, size = 0, 0
    held: list[bytes] = []
    with place.open_stream() as file:
        try:
            for record in records_of(file, str(place)):
                held.append(record)
                size += len(record)
                if len(held) == rows or size >= _MOST_BYTES:
                    yield _of_messages(first, wanted.messages, held)
                    first, held, size = first + len(held), [], 0
        except DamagedError as error:
            raise UnreadableError(error) from error
    if held or not first:
        yield _of_messages(first, wanted.messages, held)


def _of_messages(first: int, column: str, records: list[bytes]) -> RowBatch:
    batch = pa.RecordBatch.from_pydict({column: pa.array(records, pa.binary())})
    return RowBatch(first, batch, _slices_of(batch))


_READERS: dict[str, Callable[[Place, int, Wanted], Iterator[RowBatch]]] = {
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".csv": _csv,
    ".tsv": _tsv,
    ".jsonl": _json,
    ".ndjson": _json,
    ".tfrecord": _records,
}
