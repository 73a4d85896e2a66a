"""`score`: a model on files of rows."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_sparse.commands.errors import raised
from onnx_sparse.commands.scoring import score_files
from onnx_sparse.commands.scoring.score_files import FailedFile, ScoredFile, ScoreSettings
from onnx_sparse.errors import CommandError
from onnx_sparse.settings import function_of
from onnx_sparse.shown import Shown, Table


@dataclass(frozen=True, repr=False)
class Scored(Shown):
    """What `score` has done; true if all files were read and no row was bad. Print it, or let a notebook show it.

        scored: onnx_sparse.Scored = onnx_sparse.score("model.onnx", "rows.csv", "scored.csv", keep=["uid"])
        print(scored.rows, scored.bad, scored.files)

    Attributes:
        files: The files of scores: each has `rows` (its source), `scores` (the file), `count` and `bad` (numbers).
        failed: The files that could not be read, each with its `error`.
        skipped: The files of scores that existed already.
        rows: The rows that were scored or skipped as bad.
        bad: How many of them are bad.
        bad_rows: The folder with the bad rows, and the reason of each.
        seconds: How long it took.
    """

    files: tuple[ScoredFile, ...]
    failed: tuple[FailedFile, ...]
    skipped: tuple[str, ...]
    rows: int
    bad: int
    bad_rows: str
    seconds: float

    def __bool__(self) -> bool:
        return not self.failed and not self.bad

    @property
    def _title(self) -> str:
        bad = f", {self.bad:,} bad: see {self.bad_rows}" if self.bad else ""
        failed = f", {len(self.failed)} files could not be read" if self.failed else ""
        return f"{self.rows:,} rows in {self.seconds:.1f} s{bad}{failed}"

    def _tables(self) -> list[Table]:
        rows: list[list[object]] = [[file["scores"], file["count"], file["bad"], file["rows"]] for file in self.files]
        rows += [["-", "-", "-", f"{file['rows']}: {file['error']}"] for file in self.failed]
        return [(["scores", ">rows", ">bad", "from"], rows)]


@function_of(ScoreSettings)
def score(settings: ScoreSettings) -> Scored:
    """Run a model on files of rows, as `onnx-sparse score` does; each becomes a Parquet file of scores.

        onnx_sparse.score("model.onnx", "rows.csv", "scores.parquet", keep=["uid"])

    Rows in memory are scored by `onnx_sparse.arrow.Scorer`. Local workers are spawned, so the caller's program needs
    its `if __name__ == "__main__"`.

    Raises:
        ValueError: Nothing can be scored, or arguments make no sense together: the message says why. A bad row is named
            by its file, row and column.
    """
    with raised(ScoreSettings, failure=ValueError):
        done = score_files.score_files(settings)
        if too_many := settings.too_many_bad(done):
            raise CommandError(too_many)
    return Scored(
        tuple(done["files"]),
        tuple(done["failed"]),
        tuple(done["skipped"]),
        done["rows"],
        done["bad"],
        done["bad_rows"],
        done["seconds"],
    )
