"""`score`: a model on files of rows."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_sparse.commands.errors import raised
from onnx_sparse.commands.score_files import score_files
from onnx_sparse.commands.text import text_table
from onnx_sparse.html import html_table, text


@dataclass(frozen=True)
class Scored:
    """What `score` has done; true if all files were read and no row was bad. Print it, or let a notebook show it.

    Attributes:
        files: The files of scores: each has `rows` (its source), `scores` (the file), `count` and `bad` (numbers).
        failed: The files that could not be read, each with its `error`.
        skipped: The files of scores that were there already.
        rows: The rows that were scored or skipped as bad.
        bad: How many of them are bad.
        bad_rows: The folder with the bad rows, and the reason of each.
        seconds: How long it took.
    """

    files: tuple[Mapping[str, Any], ...]
    failed: tuple[Mapping[str, str], ...]
    skipped: tuple[str, ...]
    rows: int
    bad: int
    bad_rows: str
    seconds: float

    def __bool__(self) -> bool:
        return not self.failed and not self.bad

    def __str__(self) -> str:
        return "\n".join(filter(None, [self._title, text_table(*self._table)]))

    def __repr__(self) -> str:
        return f"<Scored {self._title}>"

    def _repr_html_(self) -> str:
        return f"<p>{text(self._title)}</p>" + html_table(*self._table)

    @property
    def _title(self) -> str:
        bad = f", {self.bad:,} bad: see {self.bad_rows}" if self.bad else ""
        failed = f", {len(self.failed)} files could not be read" if self.failed else ""
        return f"{self.rows:,} rows in {self.seconds:.1f} s{bad}{failed}"

    @property
    def _table(self) -> tuple[list[str], list[list[object]]]:
        rows = [[file["scores"], file["count"], file["bad"], file["rows"]] for file in self.files]
        rows += [["-", "-", "-", f"{file['rows']}: {file['error']}"] for file in self.failed]
        return ["scores", "rows", "bad", "from"], rows


def score(
    model: str | os.PathLike[str],
    rows: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    column_types: Mapping[str, str] | None = None,
    outputs: Sequence[str] | None = None,
    partition_by: Sequence[str] = (),
    csv_delimiter: str = ",",
    engine: str = "local",
    workers: int = 1,
    batch_rows: int = 25_000,
    dependent_rows: str = "refuse",
    on_bad_row: str = "fail",
    resume: bool = False,
    overwrite: bool = False,
    backend: str = "auto",
) -> Scored:
    """Run a model on files of rows, as `onnx-sparse score` does; each becomes a Parquet file of scores.

        onnx_sparse.score("model.onnx", "rows.csv", "scores.parquet", keep=["uid"])

    Rows in memory are scored by `onnx_sparse.arrow.Scorer`.

    Args:
        model: The model's file.
        rows: Files, folders or patterns, also in stores: `s3://bucket/rows/`.
        output: The folder for the scores, or a file that ends in `.parquet`.
        columns: The column of each feature that is not named like it.
        keep: Columns that the scores keep.
        column_types: The types of kept columns of text files: `{"day": "date32"}`.
        outputs: The outputs; all when omitted.
        partition_by: Kept columns with whose values folders are made.
        csv_delimiter: What separates the cells of CSV.
        engine: "local", "ray" or "spark".
        workers: How many processes. Local ones are spawned, so the caller's program needs its
            `if __name__ == "__main__"`.
        batch_rows: The most rows of a batch.
        dependent_rows: For a model whose answers change with the other rows of a batch: "refuse", "alone" or "batch".
        on_bad_row: "fail", or "skip": write bad rows next to the scores, with the reason.
        resume: Whether to keep files of scores that were made from the same.
        overwrite: Whether to replace files of scores.
        backend: "auto", "native" or "python".

    Raises:
        ValueError: Nothing can be scored, or arguments make no sense together: the message says why. A bad row is named
            by its file, row and column.
    """
    for name, value, known in (
        ("engine", engine, ("local", "ray", "spark")),
        ("dependent_rows", dependent_rows, ("refuse", "alone", "batch")),
        ("on_bad_row", on_bad_row, ("fail", "skip")),
        ("backend", backend, ("auto", "native", "python")),
    ):
        if value not in known:
            raise ValueError(f"{name} = {value!r} is not one of {', '.join(known)}")
    for name, number in (("workers", workers), ("batch_rows", batch_rows)):
        if number < 1:
            raise ValueError(f"{name} = {number} is not positive")
    if resume and overwrite:
        raise ValueError("resume and overwrite exclude each other")
    arguments = argparse.Namespace(
        model=Path(model),
        rows=[os.fspath(rows)] if isinstance(rows, (str, os.PathLike)) else [os.fspath(path) for path in rows],
        output=os.fspath(output),
        columns=[f"{feature}={column}" for feature, column in (columns or {}).items()],
        keep=list(keep),
        column_type=[f"{column}={dtype}" for column, dtype in (column_types or {}).items()],
        csv_delimiter=csv_delimiter,
        outputs=None if outputs is None else list(outputs),
        partition_by=list(partition_by),
        engine=engine,
        workers=workers,
        batch_rows=batch_rows,
        dependent_rows=dependent_rows,
        on_bad_row=on_bad_row,
        max_bad_rows=None,
        resume=resume,
        overwrite=overwrite,
        backend=backend,
        verbose=False,
        quiet=True,
        json=True,
        debug=False,
    )
    with raised(ValueError):
        done = score_files(arguments, lambda stage: None)
    return Scored(
        tuple(done["files"]),
        tuple(done["failed"]),
        tuple(done["skipped"]),
        done["rows"],
        done["bad"],
        done["bad_rows"],
        done["seconds"],
    )
