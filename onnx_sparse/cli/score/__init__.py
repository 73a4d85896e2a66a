"""Run a model on files of rows: each becomes a Parquet file of scores in the folder OUT.

OUT can also be a file: .parquet, .csv, .json (an array of objects) or .jsonl. -o - writes to standard output.

The rows are in Parquet (.parquet), Arrow (.arrow, .feather), CSV (.csv, .tsv, with lists as JSON: [5, 7]),
JSON lines (.jsonl, .ndjson) or TFRecord (.tfrecord) files, with a column for each feature of the model (see
inspect). Folders are searched like Parquet data sets: names that begin with "." or "_" are skipped, and the
folder day=1 adds a column day to its rows. Rows and scores may also be in a store: s3://bucket/key,
gs://bucket/key, hdfs://host/path. Files of scores are written atomically.

Exit status 3: more than --max-bad-rows rows could not be scored.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_options, given
from onnx_sparse.cli.watch import watched
from onnx_sparse.commands import Progress
from onnx_sparse.commands.scoring.score_files import Scored, ScoreSettings, Watch, score_files
from onnx_sparse.errors import CommandError, UsageError

if TYPE_CHECKING:
    from onnx_sparse.scoring.row_sources import Source

NAME = "score"
SUMMARY = "run a model on files of rows"
EXAMPLES = """
onnx-sparse score model.onnx 'in/*.parquet' -o out/ --keep uid
onnx-sparse score m.onnx in.csv -o out.csv --columns items=basket --keep id
onnx-sparse score model.onnx rows.jsonl -o - | head
onnx-sparse score model.onnx in/ -o out/ --max-bad-rows 0.1% --resume
onnx-sparse score model.onnx s3://bucket/rows/ -o s3://bucket/scores/ \\
  --engine ray --workers 64
"""

#: The extra with each package that is imported here.
_EXTRAS = {"pyarrow": "score", "ray": "ray", "pyspark": "spark"}
#: How many files a table of what was done has.
_MOST_SHOWN = 50
#: Rows of the first file that are tried together and alone.
_TRIED = 8
#: How often a line says how far the work is where there is no terminal, in seconds.
_LOG_INTERVAL = 30
_LOG = logging.getLogger("onnx_sparse.score")


class TooManyBadError(CommandError):
    """More rows could not be scored than are allowed."""

    exit_code = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser, ScoreSettings)
    loud = parser.add_mutually_exclusive_group()
    loud.add_argument("-v", "--verbose", action="store_true", help="a line on stderr for each file")
    loud.add_argument("-q", "--quiet", action="store_true", help="no lines about progress")


def run(arguments: argparse.Namespace) -> int:
    """Score the files."""
    settings = given(ScoreSettings, arguments)
    if settings.output == "-" and arguments.json:
        raise UsageError("--json and -o - both write to standard output; give a file or a folder")
    return watched(
        lambda doing: _score(settings, arguments, doing), stays="complete files are kept; --resume continues"
    )


def _score(settings: ScoreSettings, arguments: argparse.Namespace, doing: Progress) -> int:
    with _logging(arguments):
        scored = score_files(settings, doing, _Shown(quiet=arguments.json or arguments.quiet))
    return _end(settings, scored, json=arguments.json)


class _Shown(Watch):
    """Says on stderr what happens meanwhile."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def note(self, text: str) -> None:
        output.write_error(f"onnx-sparse: note: {text}")

    @contextmanager
    def rows(self, sources: Sequence[Source]) -> Iterator[Callable[[int, int], None]]:
        log = _Log(len(sources), time.monotonic)
        with _progress(sources, quiet=self._quiet) as show:

            def tell(rows: int, files: int) -> None:
                show(rows)
                log.tell(rows, files)

            yield tell


def _end(settings: ScoreSettings, scored: Scored, *, json: bool) -> int:
    """Show what was done; a failure if files could not be read, or too many rows not be scored."""
    if not json and settings.output != "-":
        _show(scored, by_batches=settings.dependent_rows == "batch")
    details, failed = dict(scored), scored["failed"]
    if failed:
        more = f" ({len(failed)} files could not be read)" if len(failed) > 1 else ""
        lines = [file["error"] for file in failed[1:_MOST_SHOWN]]
        raise CommandError(f"{failed[0]['error']}{more}", details=details, lines=lines)
    if too_many := settings.too_many_bad(scored):
        raise TooManyBadError(too_many, details=details)
    if json:
        output.write_json(details)
    return output.DONE


class _Log:
    """A line about the rows that are done, now and then."""

    def __init__(self, files: int, clock: Callable[[], float]) -> None:
        self._files, self._clock = files, clock
        self._begun = self._last = clock()
        self._told = (0, 0)

    def tell(self, rows: int, files: int) -> None:
        now = self._clock()
        is_news = (rows, files) != self._told and files < self._files
        if now - self._last >= _LOG_INTERVAL and is_news:
            self._last, self._told = now, (rows, files)
            speed = f"{rows / (now - self._begun):,.0f}"
            _LOG.info("%s rows, %s of %s files done (%s rows per second)", f"{rows:,}", files, self._files, speed)


@contextmanager
def _logging(arguments: argparse.Namespace) -> Iterator[None]:
    """Lines of the logger `onnx_sparse.score` on stderr, where no bar is there."""
    level = logging.DEBUG if arguments.verbose else logging.INFO
    if arguments.quiet or (sys.stderr.isatty() and not arguments.verbose):
        level = logging.ERROR
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("onnx-sparse: %(message)s"))
    before = _LOG.level, _LOG.propagate
    _LOG.addHandler(handler)
    _LOG.setLevel(level)
    _LOG.propagate = False
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        _LOG.level, _LOG.propagate = before


@contextmanager
def _progress(sources: Sequence[Any], *, quiet: bool) -> Iterator[Any]:
    """A bar with rows per second and the time that is left, on a terminal."""
    from onnx_sparse.scoring.row_files import count_of

    if quiet or not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    counts = [count_of(source) for source in sources]
    total = None if None in counts else sum(count or 0 for count in counts)
    text = TextColumn("{task.completed:,.0f} rows  {task.fields[speed]:,.0f} per second")
    with Progress(BarColumn(), text, TimeRemainingColumn(), console=output.console(sys.stderr)) as bar:
        task, begun = bar.add_task("", total=total, speed=0), time.monotonic()
        yield lambda rows: bar.update(task, completed=rows, speed=rows / max(time.monotonic() - begun, 1e-9))


def _show(scored: Scored, *, by_batches: bool) -> None:
    files = scored["files"]
    rows = [
        [PurePosixPath(file["scores"]).name, f"{file['count']:,}", f"{file['bad']:,}", file["rows"]]
        for file in files[:_MOST_SHOWN]
    ]
    if rows:
        output.table(["scores", ">rows", ">bad", "from"], rows, paths=["from"])
        if len(files) > _MOST_SHOWN:
            output.write_line(f"and {len(files) - _MOST_SHOWN:,} more files (--json lists all)")
        output.write_line()
    speed = scored["rows"] / max(scored["seconds"], 1e-9)
    output.paragraph(f"{scored['rows']:,} rows in {scored['seconds']:.1f} s ({speed:,.0f} per second)")
    if scored["rows_depend"] and by_batches:
        output.paragraph(f"{scored['rows_depend']}: another split of the rows may have other scores")
    if scored["skipped"]:
        count = len(scored["skipped"])
        output.paragraph(f"{count} file{'s' * (count > 1)} of scores {'were' if count > 1 else 'was'} there already")
    if scored["bad"]:
        output.paragraph(f"{scored['bad']:,} rows could not be scored; see {scored['bad_rows']}")
