"""Scoring files of rows: each becomes a Parquet file, whole or not at all."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from onnx_sparse.arrow import Scorer
from onnx_sparse.cli.new_file import new_file
from onnx_sparse.cli.output import CommandError
from onnx_sparse.cli.row_files import BadRow, batches_of
from onnx_sparse.cli.termination import TerminatedError, interrupts_blocked, termination_raised
from onnx_sparse.columns import RowError
from onnx_sparse.model_features import Features
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.validation import KernelError

#: The key in the metadata of a file that says what it was made from.
_ORIGIN = b"onnx_sparse.scored"
#: The column with the reason, in the files of bad rows.
REASON = "onnx_sparse_reason"

#: By kind of numpy's dtype; bfloat16 is of the kind V.
_TEXT_TYPES = {
    "b": pa.bool_(),
    "i": pa.int64(),
    "u": pa.uint64(),
    "f": pa.float64(),
    "V": pa.float64(),
    "O": pa.string(),
}

#: How often the rows that workers have done are counted, in seconds.
INTERVAL = 0.2
WORKER_ENDED = "a worker was ended (is there enough memory?); what is whole stays, --resume goes on from there"


@dataclass(frozen=True)
class Job:
    """A file to score.

    Attributes:
        source: The file of rows.
        target: The file of scores.
        origin: What the scores depend on: equal for a file that need not be scored again.
        bad: The file of the rows that could not be scored; None if one such row is an error.
        batch_rows: The most rows of a batch.
        keep: The columns that are kept.
    """

    source: Path
    target: Path
    origin: str
    bad: Path | None
    batch_rows: int
    keep: tuple[str, ...] = ()

    def is_done(self) -> bool:
        """Whether the file of scores is there, made from the same."""
        try:
            metadata = pq.read_schema(self.target).metadata or {}
        except (OSError, pa.ArrowException):
            return False
        return bool(metadata.get(_ORIGIN) == self.origin.encode())


@dataclass(frozen=True)
class Done:
    """What became of a file."""

    rows: int
    bad: int


def origin_of(source: Path, model: str, **options: Any) -> str:
    """What the scores of a file depend on, as text."""
    state = source.stat()
    return json.dumps({"model": model, "size": state.st_size, "modified": state.st_mtime_ns, **options}, sort_keys=True)


def score_all(
    scorer: Scorer, jobs: Sequence[Job], workers: int, tell: Callable[[int], None]
) -> Iterator[tuple[Job, Done]]:
    """Score files, several at once; each is yielded when it is done.

    Args:
        scorer: The scorer.
        jobs: The files.
        workers: How many processes.
        tell: Called with the number of rows that have been done so far.

    Raises:
        CommandError: A file cannot be read, scored or written, or a process was ended.
    """
    if workers == 1 or len(jobs) < 2:
        rows = 0

        def count(more: int) -> None:
            nonlocal rows
            rows += more
            tell(rows)

        for job in jobs:
            yield job, score(scorer, job, count)
        return
    with termination_raised():
        yield from _score_in_workers(scorer, jobs, workers, tell)


def _score_in_workers(
    scorer: Scorer, jobs: Sequence[Job], workers: int, tell: Callable[[int], None]
) -> Iterator[tuple[Job, Done]]:
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, _prepare, (scorer, counter))
    try:
        with interrupts_blocked():  # a terminal sends Ctrl-C to the workers, too, which would each say so
            waiting = {pool.submit(_score, job): job for job in jobs}
        while waiting:
            done, _ = wait(waiting, INTERVAL, FIRST_COMPLETED)
            tell(counter.value)
            for future in done:
                job = waiting.pop(future)
                yield job, future.result()
    except (KeyboardInterrupt, TerminatedError, GeneratorExit):
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise
    except BrokenProcessPool:
        raise CommandError(WORKER_ENDED) from None
    finally:
        pool.shutdown(cancel_futures=True)


_worker: dict[str, Any] = {}


def _prepare(scorer: Scorer, counter: Any) -> None:
    _worker.update(scorer=scorer, counter=counter)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when the process that started it has ended, however: it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)  # removes what is half written


def _score(job: Job) -> Done:
    counter = _worker["counter"]

    def count(more: int) -> None:
        with counter.get_lock():
            counter.value += more

    try:
        return score(_worker["scorer"], job, count)
    except TerminatedError as end:  # the file is removed; the pool would go on with the next
        os._exit(end.exit_code)


def score(scorer: Scorer, job: Job, count: Callable[[int], None]) -> Done:
    """Score a file.

    Args:
        scorer: The scorer.
        job: The file.
        count: Called with the number of rows of each batch that is done.

    Raises:
        CommandError: It cannot be read, scored or written.
    """
    features, columns = scorer.features, scorer.columns
    types = {columns[name]: _text_type(features, name) for name in features if features[name].kind != "example"}
    examples = [columns[name] for name, feature in features.items() if feature.kind == "example"]
    rows, bad = 0, _BadRows(job)
    with new_file(job.target) as file, bad, contextlib.ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        for batch in batches_of(
            job.source,
            job.batch_rows,
            columns={*columns.values(), *job.keep},
            types=types,
            messages=examples[0] if len(examples) == 1 else None,
        ):
            if isinstance(batch, BadRow):
                if job.bad is None:
                    raise CommandError(f"{job.source}, {batch.reason}")
                bad.add(batch.row, batch.reason)
                rows += 1
                continue
            for scored in _scored(scorer, batch, rows, job, bad):
                with _writing(job):
                    if writer is None:
                        schema = scored.schema.with_metadata({_ORIGIN: job.origin.encode()})
                        writer = stack.enter_context(pq.ParquetWriter(file, schema))
                    writer.write_table(scored.replace_schema_metadata(writer.schema.metadata))
            rows += batch.num_rows
            count(batch.num_rows)
        if writer is None:
            raise CommandError(f"{job.source} has no columns")
    return Done(rows, bad.count)


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


@contextlib.contextmanager
def _writing(job: Job, what: str = "scores") -> Iterator[None]:
    """Report what a Parquet file cannot hold: kinds of columns, and columns whose type changes between batches."""
    try:
        yield
    except (pa.ArrowException, ValueError) as error:
        kind, _, _ = str(error).partition("\n")
        raise CommandError(f"{job.source}: its {what} cannot be written: {kind}") from error


def _scored(scorer: Scorer, batch: pa.RecordBatch, first: int, job: Job, bad: _BadRows) -> Iterator[pa.Table]:
    """The scores of a batch; where rows may be bad, of its parts without these."""
    try:
        yield scorer(batch)
    except (ValueError, KernelError) as error:
        if job.bad is None or not batch.num_rows:
            raise CommandError(f"{job.source}: {_located(error, batch.num_rows, first)}") from error
        if batch.num_rows <= 1:
            bad.add(batch, str(error))
            yield from _scored(scorer, batch.slice(0, 0), first, job, bad)  # refuses what no row could fit
            return
        half = batch.num_rows // 2
        yield from _scored(scorer, batch.slice(0, half), first, job, bad)
        yield from _scored(scorer, batch.slice(half), first + half, job, bad)


def _located(error: Exception, rows: int, first: int) -> str:
    """The message of an error in a batch, with the rows of the file."""
    if isinstance(error, RowError):
        return error.after(first)
    return f"rows {first} to {first + rows - 1}: {error}" if isinstance(error, KernelError) else str(error)


class _BadRows:
    """The rows of a file that could not be scored, each with the reason; no file where there are none."""

    def __init__(self, job: Job) -> None:
        self._job, self._path = job, job.bad
        self._rows: list[pa.Table] = []
        self.count = 0

    def add(self, row: pa.RecordBatch, reason: str) -> None:
        self._rows.append(pa.Table.from_batches([row]).append_column(REASON, pa.array([reason] * row.num_rows)))
        self.count += row.num_rows

    def __enter__(self) -> _BadRows:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if self._path is None or failed:
            return
        self._path.unlink(missing_ok=True)
        if self._rows:
            with _writing(self._job, "rows that could not be scored"):
                texts = {field.name for row in self._rows for field in row.schema if field.type == pa.string()}
                rows = [_with_texts(row, texts) for row in self._rows]
                table = pa.concat_tables(rows, promote_options="permissive")
            self._path.parent.mkdir(exist_ok=True)
            try:
                with new_file(self._path) as file, _writing(self._job, "rows that could not be scored"):
                    pq.write_table(table, file)
            except BaseException:
                with contextlib.suppress(OSError):  # it has the bad rows of other files
                    self._path.parent.rmdir()
                raise


def _with_texts(row: pa.Table, names: Set[str]) -> pa.Table:
    """The rows with texts in some columns, as CSV has them, where other rows have texts that say nothing legal."""
    for number, field in enumerate(row.schema):
        if field.name in names and field.type != pa.string():
            texts = [None if value is None else json.dumps(value) for value in row.column(number).to_pylist()]
            row = row.set_column(number, field.name, pa.array(texts, pa.string()))
    return row
