"""Scoring a file of rows: it becomes a Parquet file of scores, whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from onnx_sparse.arrow import Scorer
from onnx_sparse.errors import CommandError
from onnx_sparse.files.new_file import remove_all_abandoned
from onnx_sparse.rows.columns import RowError
from onnx_sparse.rows.model_features import Features
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.validation import KernelError
from onnx_sparse.scoring.kept_values import KeptType, WidenedError
from onnx_sparse.scoring.partitions import Partitions
from onnx_sparse.scoring.places import Place, new_place
from onnx_sparse.scoring.row_files import UnreadableError, batches_of
from onnx_sparse.scoring.row_sources import Source
from onnx_sparse.scoring.text_rows import RowBatch, Wanted
from onnx_sparse.scoring.text_scores import TextScores
from onnx_sparse.sessions.ort_errors import ort_message

#: The key in the metadata of a file that says what it was made from.
ORIGIN = b"onnx_sparse.scored"
#: The columns with the number of a row in its file and the reason, in the files of bad rows.
ROW, REASON = "onnx_sparse_row", "onnx_sparse_reason"

#: What says that rows do not fit a model.
_REFUSALS = (ValueError, KernelError, ort_state.Fail, ort_state.InvalidArgument, ort_state.RuntimeException)

#: By kind of numpy's dtype; bfloat16 is of the kind V.
_TEXT_TYPES = {
    "b": pa.bool_(),
    "i": pa.int64(),
    "u": pa.uint64(),
    "f": pa.float64(),
    "V": pa.float64(),
    "O": pa.string(),
}


@dataclass(frozen=True)
class Job:
    """A file to score.

    Attributes:
        source: The file of rows.
        target: The file of scores; with columns to partition by, its folder and name without these columns.
        options: What the scores depend on beside the file: the model, the options and the versions.
        bad: The file of the rows that could not be scored.
        skip: Whether such rows are skipped; else one is an error.
        batch_rows: The most rows of a batch.
        keep: The columns that are kept.
        asked: The types of kept columns of texts.
        delimiter: What separates the cells of CSV.
        partition_by: The kept columns that are folders of the scores.
        alone: Whether the model runs on each row by itself.
        text: How scores are written: `csv`, `json` or `jsonl`; empty for Parquet.
        is_streamed: Whether scores go to standard output.
    """

    source: Source
    target: Place
    options: str
    bad: Place
    skip: bool
    batch_rows: int
    keep: tuple[str, ...] = ()
    asked: Mapping[str, pa.DataType] = field(default_factory=dict)
    delimiter: str = ","
    partition_by: tuple[str, ...] = ()
    alone: bool = False
    text: str = ""
    is_streamed: bool = False

    def origin(self) -> str:
        """What the scores depend on: equal for a file that need not be scored again."""
        return json.dumps({"rows": self.source.place.identity(), **json.loads(self.options)}, sort_keys=True)

    def exists(self) -> bool:
        """Whether there are scores, of whatever."""
        if self.partition_by:
            return Partitions(self.target, self.partition_by).origin() is not None
        return not self.is_streamed and self.target.exists()

    def first_bad(self) -> str | None:
        """The first row that could not be scored when the scores that are there were made, and how many there are."""
        try:
            with self.bad.open() as file:
                found = pq.ParquetFile(file)
                count, first = found.metadata.num_rows, next(found.iter_batches(1, columns=[REASON]))
        except (OSError, pa.ArrowException, StopIteration):
            return None
        return f"{count} bad row{'s' * (count > 1)}, the first: {first.column(0)[0].as_py()}"

    def is_done(self) -> bool:
        """Whether the scores are there, made from the same; text does not tell."""
        if self.text:
            return False
        if self.partition_by:
            return Partitions(self.target, self.partition_by).origin() == self.origin()
        try:
            with self.target.open() as file:
                metadata = pq.read_schema(file).metadata or {}
        except (OSError, pa.ArrowException):
            return False
        return bool(metadata.get(ORIGIN) == self.origin().encode())


def remove_abandoned_scores(jobs: Sequence[Job]) -> None:
    """Remove what killed scorers of the files have left, in every folder where they write."""
    local = [job for job in jobs if not job.target.store]
    remove_all_abandoned(Path(job.bad.path) for job in local)
    for job in local[:1]:  # all are partitioned by the same columns
        remove_all_abandoned((Path(job.target.path) for job in local), "*=*/" * len(job.partition_by))
    remove_all_abandoned(Path(Partitions(job.target, ()).list.path) for job in local if job.partition_by)


@dataclass(frozen=True)
class Done:
    """What became of a file."""

    rows: int
    bad: int


def score(scorer: Scorer, job: Job, count: Callable[[int], None]) -> Done:
    """Score a file.

    Args:
        scorer: The scorer.
        job: The file.
        count: Called with the number of rows of each batch that is done; a negative one if they are read again.

    Raises:
        UnreadableError: It cannot be read.
        CommandError: It cannot be scored or written.
    """
    kept: dict[str, KeptType] = {}
    sent = _Sent()
    while True:
        done = 0

        def tell(more: int) -> None:
            nonlocal done
            done += more
            count(more)

        try:
            return _score(scorer, job, kept, tell, sent)
        except WidenedError as error:
            count(-done)
            kept |= error.types


def _score(scorer: Scorer, job: Job, kept: Mapping[str, KeptType], count: Callable[[int], None], sent: _Sent) -> Done:
    wanted = _wanted(scorer, job, kept)
    rows = 0
    with _Scores(job, sent) as scores, _BadRows(job) as bad:
        for batch in batches_of(job.source, job.batch_rows, wanted):
            scoring = _Batch(scorer, job, batch, bad)
            scores.write(scoring.scored())
            rows += batch.rows.num_rows
            count(batch.rows.num_rows)
    return Done(rows, bad.count)


def _wanted(scorer: Scorer, job: Job, kept: Mapping[str, KeptType]) -> Wanted:
    """What is read of the file."""
    features, columns = scorer.features, scorer.columns
    examples = [columns[name] for name, feature in features.items() if feature.kind == "example"]
    others = {name: columns[name] for name in features if columns[name] not in examples}
    return Wanted(
        {column: _text_type(features, name) for name, column in others.items()},
        job.keep,
        job.asked,
        examples[0] if len(examples) == 1 else None,
        kept,
        job.delimiter,
        {column: features.inputs[features[name].inputs["values"]].dtype for name, column in others.items()},
    )


def _text_type(known: Features, name: str) -> pa.DataType:
    """The type that the texts of a feature's column stand for: a wide one, because a Scorer checks the range."""
    feature = known[name]
    values = known.inputs[feature.inputs["values"]]
    levels = len(feature.row_splits) if feature.kind == "ragged" else 1
    if feature.kind == "dense":
        levels = len(values.shape or ()) - 1
    dtype = _TEXT_TYPES[numpy_dtype(values.dtype).kind]
    for _ in range(levels):
        dtype = pa.list_(dtype)
    return dtype


class _Batch:
    """The scores of a batch, and its bad rows."""

    def __init__(self, scorer: Scorer, job: Job, batch: RowBatch, bad: _BadRows) -> None:
        self._scorer, self._job, self._batch, self._bad = scorer, job, batch, bad

    def scored(self) -> pa.Table:
        """The scores of the rows that have any."""
        batch, rows = self._batch, self._batch.rows
        numbers = np.arange(rows.num_rows)
        if batch.bad:
            if not self._job.skip:
                raise CommandError(f"{self._job.source}, {batch.bad[min(batch.bad)]}")
            places = sorted(batch.bad)
            self._bad.add(batch, places, [batch.bad[place] for place in places])
            numbers = np.delete(numbers, places)
            rows = rows.take(numbers)
        refused: dict[int, str] = {}
        size = 1 if self._job.alone else max(rows.num_rows, 1)
        begins = range(0, max(rows.num_rows, 1), size)
        tables = [t for at in begins for t in self._parts(rows.slice(at, size), numbers[at : at + size], refused)]
        if refused:
            self._bad.add(batch, list(refused), list(refused.values()))
        if not tables:  # each row is bad
            tables += self._parts(rows.slice(0, 0), numbers[:0], refused)
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def _parts(self, rows: pa.RecordBatch, numbers: Any, refused: dict[int, str]) -> Iterator[pa.Table]:
        """The scores of rows, of which `numbers` are the positions in the batch, without those that are refused."""
        try:
            yield self._scorer(rows)
            return
        except _REFUSALS as error:
            if not rows.num_rows:
                raise CommandError(f"{self._job.source}: {_text(error)}") from error
            refusal = error
        self._refuse_what_no_row_fits(rows, refusal)
        if not self._job.skip:
            row, reason = self._first_refused(rows, refusal)
            raise CommandError(f"{self._job.source}{self._located(reason, int(numbers[row]))}") from refusal
        if rows.num_rows == 1:
            refused[int(numbers[0])] = self._located(self._blamed(rows, refusal), int(numbers[0])).lstrip(":, ")
            return
        half = rows.num_rows // 2
        yield from self._parts(rows.slice(0, half), numbers[:half], refused)
        yield from self._parts(rows.slice(half), numbers[half:], refused)

    def _refuse_what_no_row_fits(self, rows: pa.RecordBatch, refusal: Exception) -> None:
        """Refuse a file whose columns do not fit the model, whatever their values."""
        if isinstance(refusal, ValueError) and not isinstance(refusal, RowError):
            error = self._refusal(rows.slice(0, 0))
            if isinstance(error, ValueError):
                raise CommandError(f"{self._job.source}: {error}") from error

    def _first_refused(self, rows: pa.RecordBatch, refusal: Exception) -> tuple[int, _Reason]:
        """The first row that is refused, and why."""
        if isinstance(refusal, RowError):
            return refusal.row, _Reason(refusal)
        low, high = 0, rows.num_rows  # the first `low` rows fit, the first `high` do not
        while high - low > 1:
            middle = (low + high) // 2
            if self._refusal(rows.slice(0, middle)) is None:
                low = middle
            else:
                high = middle
        row = rows.slice(high - 1, 1)
        alone = self._refusal(row)
        return high - 1, self._blamed(row, alone) if alone is not None else _Reason(refusal)

    def _refusal(self, rows: pa.RecordBatch) -> Exception | None:
        try:
            self._scorer(rows)
        except _REFUSALS as error:
            return error
        return None

    def _blamed(self, row: pa.RecordBatch, refusal: Exception) -> _Reason:
        """A refused row's reason, with the column that is at fault: without its values the model takes the row."""
        if isinstance(refusal, RowError):
            return _Reason(refusal)
        columns = list(self._scorer.columns.values())
        for name in columns:
            if len(columns) == 1 or self._refusal(_without_values(row, name)) is None:
                return _Reason(refusal, name)
        return _Reason(refusal)

    def _located(self, reason: _Reason, place: int) -> str:
        number = self._batch.first + place
        if isinstance(reason.error, RowError):
            return f": {reason.error.after(number - reason.error.row)}"
        column = "" if reason.column is None else f", column {reason.column!r}"
        return f", row {number}{column}: {_text(reason.error)}"


@dataclass(frozen=True)
class _Reason:
    """Why a row is refused, and the column that is at fault, if one alone is."""

    error: Exception
    column: str | None = None


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, (ValueError, KernelError)) else ort_message(error)


def _without_values(row: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """One row with an empty list, or zeros, in a column."""
    at = row.schema.get_field_index(name)
    if at < 0:
        return row
    try:
        neutral = pa.array([_neutral(row.column(at)[0].as_py(), row.schema.field(at).type)], row.schema.field(at).type)
    except (pa.ArrowException, TypeError, ValueError):
        return row
    return row.set_column(at, name, neutral)


def _neutral(value: Any, dtype: pa.DataType) -> Any:
    types = pa.types
    if types.is_fixed_size_list(dtype):
        return [_neutral(item, dtype.value_type) for item in value or ()]
    if isinstance(value, list):
        return []
    if types.is_string(dtype) or types.is_large_string(dtype):
        return ""
    return b"" if isinstance(value, bytes) else 0


@contextlib.contextmanager
def _writing(job: Job, what: str = "scores") -> Iterator[None]:
    """Report what a Parquet file cannot hold: kinds of columns, and columns whose type changes between batches."""
    try:
        yield
    except (pa.ArrowException, ValueError) as error:
        kind, _, _ = str(error).partition("\n")
        raise CommandError(f"{job.source}: its {what} cannot be written: {kind}") from error


@dataclass
class _Sent:
    """How many scores have been written to standard output, where they cannot be taken back."""

    rows: int = 0


class _Scores(contextlib.ExitStack):
    """The files that the scores of a job go to, which replace those before when the block has ended."""

    def __init__(self, job: Job, sent: _Sent) -> None:
        super().__init__()
        self._job, self._sent, self._left = job, sent, sent.rows
        self._partitions = Partitions(job.target, job.partition_by) if job.partition_by else None
        self._writers: dict[Place, pq.ParquetWriter | TextScores] = {}
        try:
            self._origin = job.origin()  # before it is read: what changes meanwhile is another file
        except OSError as error:
            raise UnreadableError(f"{job.source} cannot be read: {error.strerror or error}") from error
        self._metadata = {ORIGIN: self._origin.encode()}

    def write(self, table: pa.Table) -> None:
        """Write the scores of a batch."""
        with _writing(self._job):
            if self._job.is_streamed:
                new = table.slice(self._left)  # it begins again if a kept column turns out to have another type
                self._left -= table.num_rows - new.num_rows
                self._writer(self._job.target, table.schema).write_table(new)
                self._sent.rows += new.num_rows
                return
            if self._partitions is None:
                self._writer(self._job.target, table.schema).write_table(self._marked(table))
                return
            for place, part in self._partitions.split(table):
                self._writer(place, part.schema).write_table(self._marked(part))

    def _marked(self, table: pa.Table) -> pa.Table:
        return table.replace_schema_metadata(self._metadata)

    def _writer(self, place: Place, schema: pa.Schema) -> pq.ParquetWriter | TextScores:
        if place not in self._writers:
            job = self._job
            file: Any = sys.stdout.buffer if job.is_streamed else self.enter_context(new_place(place))
            made = (
                TextScores(file, job.text, schema.names, job.delimiter, begun=self._sent.rows > 0)
                if job.text
                else pq.ParquetWriter(file, schema.with_metadata(self._metadata))
            )
            self._writers[place] = self.enter_context(made)
        return self._writers[place]

    def __exit__(self, *failed: Any) -> bool:
        if failed[0] is None and self._partitions is not None:
            self._partitions.begin()
        ended = super().__exit__(*failed)
        if failed[0] is None and self._partitions is not None:
            self._partitions.finish(self._origin, list(self._writers))
        return bool(ended)


class _BadRows(contextlib.ExitStack):
    """The rows of a file that could not be scored, each with the reason; no file where there are none."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job
        self._writer: pq.ParquetWriter | None = None
        self.count = 0

    def add(self, batch: RowBatch, places: Sequence[int], reasons: Sequence[str]) -> None:
        """Write rows of a batch, by their positions, with the reasons."""
        table = batch.raw(places)
        for name, column in (
            (ROW, pa.array([batch.first + place for place in places], pa.int64())),
            (REASON, pa.array(reasons, pa.string())),
        ):
            table = table.append_column(name, column)
        self.count += len(places)
        with _writing(self._job, "rows that could not be scored"):
            if self._writer is None:
                file = self.enter_context(new_place(self._job.bad))
                self._writer = self.enter_context(pq.ParquetWriter(file, table.schema))
            self._writer.write_table(table)

    def __exit__(self, *failed: Any) -> bool:
        try:
            ended = super().__exit__(*failed)
            if failed[0] is None and not self.count:
                self._job.bad.remove()
        finally:
            if failed[0] is not None and not self._job.bad.store:
                with contextlib.suppress(OSError):  # it has the bad rows of other files
                    os.rmdir(self._job.bad.parent.path)
        return bool(ended)


def first_rows(scorer: Scorer, job: Job, most: int) -> pa.Table | None:
    """A few of the first rows of a file, of different lengths; None if it has none that can be read."""
    with contextlib.suppress(CommandError, WidenedError):
        for batch in batches_of(job.source, job.batch_rows, _wanted(scorer, job, {})):
            good = [number for number in range(min(batch.rows.num_rows, most * 100)) if number not in batch.bad]
            if not good:
                continue
            sizes = {number: batch.rows.slice(number, 1).nbytes for number in good[: most * 100]}
            order = sorted(good, key=sizes.__getitem__)
            chosen = sorted({*order[: most // 4], *order[-(most // 4) :], *good[: most // 2]})
            return pa.Table.from_batches([batch.rows.slice(number, 1) for number in chosen])
    return None
