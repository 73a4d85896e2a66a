"""Run a model on files of rows: each becomes a Parquet file of scores in the folder OUT, or the file OUT.parquet.

The rows are in Parquet (.parquet), Arrow (.arrow, .feather), CSV (.csv, .tsv, with lists as JSON: [5, 7]),
JSON lines (.jsonl, .ndjson) or TFRecord (.tfrecord) files, with a column for each feature of the model (see
inspect). Folders are searched like Parquet data sets: names that begin with "." or "_" are skipped, and the
folder day=1 adds a column day to its rows. Rows and scores may also be in a store: s3://bucket/key,
gs://bucket/key, hdfs://host/path. Files of scores are written atomically.

Exit status 3: more than --max-bad-rows rows could not be scored.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.named_values import named_values
from onnx_sparse.cli.output import CommandError, UsageError
from onnx_sparse.cli.watch import Tell, watched
from onnx_sparse.installation import install_command

if TYPE_CHECKING:
    from onnx_sparse.arrow import Scorer
    from onnx_sparse.cli.score.local_engine import Outcome
    from onnx_sparse.cli.score.places import Place
    from onnx_sparse.cli.score.row_sources import Source
    from onnx_sparse.cli.score.score_file import Job

NAME = "score"
SUMMARY = "run a model on files of rows"
EXAMPLES = """
onnx-sparse score model.onnx 'in/*.parquet' -o out/ --keep uid
onnx-sparse score model.onnx rows.csv -o scores.parquet --columns items=basket
onnx-sparse score model.onnx in/ -o out/ --workers 8 --max-bad-rows 0.1% --resume
onnx-sparse score model.onnx s3://bucket/rows/ -o s3://bucket/scores/ --engine ray --workers 64
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
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    parser.add_argument("rows", nargs="+", metavar="ROWS", help="a file, a folder of them, or a pattern in quotes")
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT", help="the folder for the scores; a file if it ends in .parquet"
    )
    parser.add_argument(
        "--columns", action="append", default=[], metavar="FEATURE=COLUMN", help="the column of a feature"
    )
    parser.add_argument("--keep", action="append", default=[], metavar="COLUMN", help="a column to keep; repeatable")
    parser.add_argument(
        "--column-type",
        action="append",
        default=[],
        metavar="COLUMN=TYPE",
        help="the type of a kept column of CSV, JSON lines or folders, such as int64; CSV and folders default to text",
    )
    parser.add_argument("--csv-delimiter", default=",", metavar="C", help="the separator of cells in CSV")
    parser.add_argument("--outputs", action="append", metavar="NAME", help="an output; all when omitted; repeatable")
    parser.add_argument(
        "--partition-by",
        action="append",
        default=[],
        metavar="COLUMN",
        help="write OUT/COLUMN=value/..., a folder for each value of a kept column; repeatable",
    )
    parser.add_argument(
        "--engine", choices=("local", "ray", "spark"), default="local", help="what runs the workers (default: local)"
    )
    parser.add_argument("--workers", type=_positive, default=1, metavar="N", help="how many processes (default: 1)")
    parser.add_argument(
        "--batch-rows", type=_positive, default=25_000, metavar="N", help="the most rows of a batch (default: 25000)"
    )
    parser.add_argument(
        "--dependent-rows",
        choices=("refuse", "alone", "batch"),
        default="refuse",
        help="for a model whose answers change with the other rows of a batch. alone: run it on each row by itself; "
        "batch: run it on the batches of the files (default: refuse)",
    )
    parser.add_argument(
        "--on-bad-row",
        choices=("fail", "skip"),
        default="fail",
        help="skip: rows that do not fit are written to OUT/_bad, with the reason (default: fail)",
    )
    parser.add_argument(
        "--max-bad-rows",
        type=_limit,
        metavar="N|P%",
        help="skip bad rows, and exit with status 3 if there are more than N of them, or more than P percent",
    )
    exists = parser.add_mutually_exclusive_group()
    exists.add_argument("--resume", action="store_true", help="keep files of scores that are up to date")
    exists.add_argument("--overwrite", action="store_true", help="replace files of scores")
    parser.add_argument("--backend", choices=("auto", "native", "python"), default="auto", help="which kernels run")
    loud = parser.add_mutually_exclusive_group()
    loud.add_argument("-v", "--verbose", action="store_true", help="a line on stderr for each file")
    loud.add_argument("-q", "--quiet", action="store_true", help="no lines about progress")


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def _limit(text: str) -> tuple[float, bool]:
    """A number of rows, or of a hundred."""
    try:
        number = float(text.removesuffix("%")) if text.endswith("%") else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of rows nor a percentage, as 0.1%") from None
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not from 0 on")
    return number, text.endswith("%")


def run(arguments: argparse.Namespace) -> int:
    """Score the files."""
    if arguments.max_bad_rows is not None:
        arguments.on_bad_row = "skip"
    return watched(lambda doing: _score(arguments, doing), stays="complete files are kept; --resume continues")


def _score(arguments: argparse.Namespace, doing: Tell) -> int:
    return _end(arguments, score_files(arguments, doing))


def score_files(arguments: argparse.Namespace, doing: Tell) -> dict[str, Any]:
    """Score the files that arguments ask for; returns what `--json` says.

    Raises:
        CommandError: Nothing can be scored. Files that cannot be read are in what is returned.
    """
    try:
        from onnx_sparse.arrow import Scorer
        from onnx_sparse.cli.files.new_file import remove_all_abandoned
        from onnx_sparse.cli.ort_errors import ort_message
        from onnx_sparse.cli.score.places import place_of

        score_all = _engine(arguments.engine)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        what = "score" if package == "pyarrow" else f"score --engine {arguments.engine}"
        raise CommandError(f"{what} needs {package}: {install_command(_EXTRAS[package])}") from None
    columns = named_values(arguments.columns, "FEATURE=COLUMN", "--columns")
    model = _model_digest(arguments.model)
    out = place_of(arguments.output)
    jobs = _jobs(arguments, out, model)
    if not out.store and not _is_file(out):
        Path(out.path).mkdir(parents=True, exist_ok=True)
    left = [job for job in jobs if not (arguments.resume and job.is_done())]
    # Also where nothing is written any more.
    remove_all_abandoned(Path(job.target.path) for job in jobs if not job.target.store)
    if not (arguments.resume or arguments.overwrite):
        existing = next((job for job in left if job.exists()), None)
        if existing is not None:
            bad = existing.first_bad()
            raise CommandError(
                f"{existing.target} is there already{f' ({bad})' if bad else ''}; --resume leaves what is whole, "
                "--overwrite replaces it"
            )
    scorer = Scorer(
        arguments.model,
        columns=columns,
        keep=_kept(arguments),
        outputs=arguments.outputs,
        backend=arguments.backend,
        check_rows=False,
    )
    try:
        known = scorer.features  # before any process is started
    except ValueError as error:
        raise CommandError(str(error)) from None
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        raise CommandError(f"{arguments.model} does not load: {ort_message(error)}") from error
    if unknown := [name for name in columns if name not in known]:
        raise UsageError(f"the model has no feature {unknown[0]}; it has {', '.join(known)}")
    depends = _dependence(scorer, left)
    if depends is not None and arguments.dependent_rows == "refuse":
        raise CommandError(
            f"{depends}, so the scores would change with --batch-rows and with how files are split; --dependent-rows "
            "alone runs the model on each row by itself, --dependent-rows batch on batches as they come"
        )
    bad_folder = (out.parent if _is_file(out) else out) / "_bad"
    return {"rows_depend": depends, "bad_rows": str(bad_folder)} | _describe(
        arguments, jobs, left, lambda tell: score_all(scorer, left, arguments.workers, tell), doing
    )


def _describe(
    arguments: argparse.Namespace,
    jobs: Sequence[Job],
    left: Sequence[Job],
    score_all: Callable[[Callable[[int], None]], Iterator[tuple[Job, Outcome]]],
    doing: Tell,
) -> dict[str, Any]:
    """Score the files, and say what became of each."""
    begun = time.monotonic()
    files: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    doing(f"scoring, 0 of {len(left)} files done")
    with _logging(arguments), _progress([job.source for job in left], quiet=arguments.json or arguments.quiet) as show:
        log = _Log(len(left), time.monotonic)

        def tell(rows: int) -> None:
            show(rows)
            log.tell(rows, len(files) + len(failed))

        for job, done in score_all(tell):
            if isinstance(done, CommandError):
                failed.append({"rows": str(job.source), "error": str(done)})
                _LOG.debug("%s", done)
            else:
                files.append({"rows": str(job.source), "scores": str(job.target), "count": done.rows, "bad": done.bad})
                _LOG.debug("%s: %s rows, %s bad", job.source, f"{done.rows:,}", f"{done.bad:,}")
            doing(f"scoring, {len(files)} of {len(left)} files done")
    scored = {id(job) for job in left}
    return {
        "files": files,
        "failed": failed,
        "skipped": [str(job.target) for job in jobs if id(job) not in scored],
        "rows": sum(file["count"] for file in files),
        "bad": sum(file["bad"] for file in files),
        "seconds": round(time.monotonic() - begun, 3),
    }


def _end(arguments: argparse.Namespace, described: dict[str, Any]) -> int:
    """Show what was done; a failure if files could not be read, or too many rows not be scored."""
    bad_folder = described["bad_rows"]
    if not arguments.json:
        _show(described, bad_folder, by_batches=arguments.dependent_rows == "batch")
    failed = described["failed"]
    if failed:
        more = f" ({len(failed)} files could not be read)" if len(failed) > 1 else ""
        lines = [file["error"] for file in failed[1:_MOST_SHOWN]]
        raise CommandError(f"{failed[0]['error']}{more}", details=described, lines=lines)
    rows, bad = described["rows"], described["bad"]
    if arguments.max_bad_rows is not None:
        limit, of_hundred = arguments.max_bad_rows
        if bad > (rows * limit / 100 if of_hundred else limit):
            text = f"{limit:g}%" if of_hundred else f"{limit:,}"
            raise TooManyBadError(
                f"{bad:,} of {rows:,} rows could not be scored, more than --max-bad-rows {text}; see {bad_folder}",
                details=described,
            )
    if arguments.json:
        output.write_json(described)
    return output.DONE


def _dependence(scorer: Scorer, jobs: Sequence[Job]) -> str | None:
    """Why scores would change with how rows are split: tried with generated rows, and with some of the first file."""
    from onnx_sparse.cli.score.score_file import first_rows

    rows = first_rows(scorer, jobs[0], _TRIED) if jobs else None
    try:
        return scorer.dependence(rows)
    except ValueError:  # a column is missing: said when the file is scored
        return scorer.dependence()


def _model_digest(path: Path) -> str:
    """What tells a model, with its data beside it, from others.

    Raises:
        CommandError: It is no model, or has nodes of our domain that this version does not know.
    """
    from onnx_sparse.cli.check import refuse_domain_errors
    from onnx_sparse.cli.files.external_data import data_file
    from onnx_sparse.cli.files.model_file import existing_file, load_model
    from onnx_sparse.cli.score.places import Place
    from onnx_sparse.models.graphs import all_tensors
    from onnx_sparse.models.model_files import is_ort_format

    with existing_file(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        file.seek(0)
        if is_ort_format(file.read(8)):  # only a session reads it
            return digest.hexdigest()
    model = load_model(path)
    refuse_domain_errors(model, path)
    for data in sorted({data for data in (data_file(path, tensor) for tensor in all_tensors(model)) if data}):
        digest.update(Place(str(data)).identity().encode() if data.exists() else b"")
    return digest.hexdigest()


def _engine(name: str) -> Callable[..., Iterator[tuple[Job, Outcome]]]:
    """What scores files: see `scoring.score_all`."""
    if name == "ray":
        from onnx_sparse.cli.score.ray_engine import score_all
    elif name == "spark":
        import pyspark  # noqa: F401  # else it is its py4j that is missing

        from onnx_sparse.cli.score.spark_engine import score_all
    else:
        from onnx_sparse.cli.score.local_engine import score_all
    return score_all


def _kept(arguments: argparse.Namespace) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*arguments.keep, *arguments.partition_by]))


def _is_file(out: Place) -> bool:
    """Whether OUT is a file, not a folder of files."""
    return out.path.lower().endswith(".parquet") and not out.is_folder()


def _jobs(arguments: argparse.Namespace, out: Place, model: str) -> list[Job]:
    import json

    import onnxruntime

    from onnx_sparse.cli.score.row_files import kind_of
    from onnx_sparse.cli.score.row_sources import sources_of
    from onnx_sparse.cli.score.score_file import Job
    from onnx_sparse.version import __version__

    if len(arguments.csv_delimiter) != 1:
        raise UsageError(f"--csv-delimiter {arguments.csv_delimiter!r} is not one character")
    sources, foreign = sources_of(arguments.rows, lambda name: bool(kind_of(name)), out)
    if foreign:
        names = f"{foreign[0]}" + f" and {len(foreign) - 1} more" * (len(foreign) > 1)
        output.write_error(f"onnx-sparse: note: passed over what holds no rows: {output.printable(names)}")
    if _is_file(out) and (len(sources) > 1 or arguments.partition_by):
        what = "--partition-by makes folders" if arguments.partition_by else f"there are {len(sources)} files of rows"
        raise UsageError(f"{out} is one file, and {what}; give a folder")
    decisive = ("columns", "outputs", "on_bad_row", "column_type", "csv_delimiter", "batch_rows", "dependent_rows")
    options = {name: getattr(arguments, name) for name in (*decisive, "backend", "partition_by")}
    versions = {"model": model, "onnx_sparse": __version__, "onnxruntime": onnxruntime.__version__}
    given = json.dumps({**options, "keep": _kept(arguments), **versions}, sort_keys=True)
    asked = _asked_types(arguments)
    jobs: dict[Place, Job] = {}
    for source in sources:
        target, bad = _targets(source, out, partitioned=bool(arguments.partition_by))
        if target in jobs:
            raise UsageError(f"{jobs[target].source} and {source} would both become {target}")
        if _is_same(source.place, target):
            raise UsageError(f"{source} would be replaced by its scores; give another folder")
        jobs[target] = Job(
            source,
            target,
            given,
            bad,
            arguments.on_bad_row == "skip",
            arguments.batch_rows,
            _kept(arguments),
            asked,
            arguments.csv_delimiter,
            tuple(arguments.partition_by),
            arguments.dependent_rows == "alone",
        )
    return list(jobs.values())


def _asked_types(arguments: argparse.Namespace) -> dict[str, Any]:
    import pyarrow as pa

    found = {}
    for name, text in named_values(arguments.column_type, "COLUMN=TYPE", "--column-type").items():
        if name not in _kept(arguments):
            raise UsageError(f"--column-type {name}={text}: the column is not kept; --keep {name} keeps it")
        try:
            found[name] = pa.type_for_alias(text)
        except ValueError:
            raise UsageError(
                f"--column-type {name}={text}: no such type; int64, float64, string, bool, date32 and "
                "timestamp[us] are some"
            ) from None
    return found


def _targets(source: Source, out: Place, *, partitioned: bool) -> tuple[Place, Place]:
    """The file of the scores, and that of the rows that have none."""
    from onnx_sparse.cli.score.row_files import stem_of

    if _is_file(out):
        return out, out.parent / "_bad" / out.name
    relative = PurePosixPath(source.relative)
    name = f"{stem_of(relative.name)}.parquet"
    if partitioned:
        if len(relative.parts) > 1:  # files of one name in several folders may go to one
            digest = hashlib.sha256(os.fsencode(str(relative.parent))).hexdigest()[:8]
            name = f"{stem_of(relative.name)}-{digest}.parquet"
        return out / name, out / "_bad" / name
    return out / relative.parent / name, out / "_bad" / relative.parent / name


def _is_same(source: Place, target: Place) -> bool:
    if source.store or target.store:
        return source == target
    return os.path.exists(target.path) and os.path.samefile(target.path, source.path)


# --- What is said meanwhile -------------------------------------------------------------------------------------------


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
    from onnx_sparse.cli.score.row_files import count_of

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


def _show(described: dict[str, Any], bad: str, *, by_batches: bool) -> None:
    files = described["files"]
    rows = [
        [PurePosixPath(file["scores"]).name, f"{file['count']:,}", f"{file['bad']:,}", file["rows"]]
        for file in files[:_MOST_SHOWN]
    ]
    if rows:
        output.table(["scores", ">rows", ">bad", "from"], rows, paths=["from"])
        if len(files) > _MOST_SHOWN:
            output.write_line(f"and {len(files) - _MOST_SHOWN:,} more files (--json lists all)")
        output.write_line()
    speed = described["rows"] / max(described["seconds"], 1e-9)
    output.paragraph(f"{described['rows']:,} rows in {described['seconds']:.1f} s ({speed:,.0f} per second)")
    if described["rows_depend"] and by_batches:
        output.paragraph(f"{described['rows_depend']}: another split of the rows may have other scores")
    if described["skipped"]:
        count = len(described["skipped"])
        output.paragraph(f"{count} file{'s' * (count > 1)} of scores {'were' if count > 1 else 'was'} there already")
    if described["bad"]:
        output.paragraph(f"{described['bad']:,} rows could not be scored; see {bad}")
