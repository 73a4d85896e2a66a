"""Run a model on files of rows: each becomes a Parquet file of scores in the folder OUT.

The rows are in Parquet (.parquet), Arrow (.arrow, .feather), CSV (.csv, with lists as JSON: [5, 7]),
JSON lines (.jsonl, .ndjson) or TFRecord (.tfrecord) files, with a column for each feature of the model
(inspect shows them). A file of scores is there when it is whole, and not before.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.named_values import named_values
from onnx_sparse.cli.output import CommandError, UsageError
from onnx_sparse.cli.watch import Tell, watched

if TYPE_CHECKING:
    from onnx_sparse.cli.scoring import Done, Job

NAME = "score"
SUMMARY = "run a model on files of rows"
EXAMPLES = """
onnx-sparse score model.onnx 'in/*.parquet' -o out/ --keep uid
onnx-sparse score model.onnx rows.csv -o out/ --columns items=basket
onnx-sparse score model.onnx in/ -o out/ --workers 8 --on-bad-row skip --resume
onnx-sparse score model.onnx in/ -o out/ --engine ray --workers 64
"""

#: The extra with each package that is imported here.
_EXTRAS = {"pyarrow": "score", "ray": "ray", "pyspark": "spark"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    parser.add_argument("rows", nargs="+", metavar="ROWS", help="a file, a folder of them, or a pattern in quotes")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the folder for the scores")
    parser.add_argument(
        "--columns", action="append", default=[], metavar="FEATURE=COLUMN", help="the column of a feature"
    )
    parser.add_argument("--keep", action="append", default=[], metavar="COLUMN", help="a column to keep; repeatable")
    parser.add_argument("--outputs", action="append", metavar="NAME", help="an output; all when omitted; repeatable")
    parser.add_argument(
        "--engine", choices=("local", "ray", "spark"), default="local", help="what runs the workers (default: local)"
    )
    parser.add_argument("--workers", type=_positive, default=1, metavar="N", help="how many processes (default: 1)")
    parser.add_argument(
        "--batch-rows", type=_positive, default=25_000, metavar="N", help="rows of a batch (default: 25000)"
    )
    parser.add_argument(
        "--on-bad-row",
        choices=("fail", "skip"),
        default="fail",
        help="skip: rows that do not fit are written to OUT/_bad, with the reason (default: fail)",
    )
    exists = parser.add_mutually_exclusive_group()
    exists.add_argument("--resume", action="store_true", help="leave files of scores that were made from the same")
    exists.add_argument("--overwrite", action="store_true", help="replace files of scores")
    parser.add_argument("--backend", choices=("auto", "native", "python"), default="auto", help="which kernels run")


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Score the files."""
    return watched(lambda doing: _score(arguments, doing), stays="what is whole stays, --resume goes on from there")


def _score(arguments: argparse.Namespace, doing: Tell) -> int:
    try:
        from onnx_sparse.arrow import Scorer
        from onnx_sparse.cli.new_file import remove_abandoned
        from onnx_sparse.cli.ort_errors import ort_message

        score_all = _engine(arguments.engine)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        what = "score" if package == "pyarrow" else f"score --engine {arguments.engine}"
        raise CommandError(f"{what} needs {package}: pip install 'onnx_sparse[{_EXTRAS[package]}]'") from None
    columns = named_values(arguments.columns, "FEATURE=COLUMN", "--columns")
    _check_model(arguments.model)
    arguments.output.mkdir(parents=True, exist_ok=True)
    jobs = _jobs(arguments)
    left = [job for job in jobs if not (arguments.resume and job.is_done())]
    for job in jobs:
        remove_abandoned(job.target)  # also where nothing is written any more
    if not (arguments.resume or arguments.overwrite):
        existing = next((job.target for job in left if job.target.exists()), None)
        if existing is not None:
            raise CommandError(f"{existing} is there already; --resume leaves what is whole, --overwrite replaces it")
    scorer = Scorer(
        arguments.model, columns=columns, keep=arguments.keep, outputs=arguments.outputs, backend=arguments.backend
    )
    try:
        known = scorer.features  # before any process is started
    except ValueError as error:
        raise CommandError(str(error)) from None
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        raise CommandError(f"{arguments.model} does not load: {ort_message(error)}") from error
    if unknown := [name for name in columns if name not in known]:
        raise UsageError(f"the model has no feature {unknown[0]}; it has {', '.join(known)}")
    begun = time.monotonic()
    files: list[dict[str, Any]] = []
    doing(f"scoring, 0 of {len(left)} files done")
    with _progress([job.source for job in left], quiet=arguments.json) as tell:
        for job, done in score_all(scorer, left, arguments.workers, tell):
            files.append({"rows": str(job.source), "scores": str(job.target), "count": done.rows, "bad": done.bad})
            doing(f"scoring, {len(files)} of {len(left)} files done")
    seconds = time.monotonic() - begun
    described = {
        "files": files,
        "skipped": [str(job.target) for job in jobs if job not in left],
        "rows": sum(file["count"] for file in files),
        "bad": sum(file["bad"] for file in files),
        "seconds": round(seconds, 3),
    }
    if arguments.json:
        output.write_json(described)
    else:
        _show(described, arguments.output)
    return output.DONE


def _check_model(path: Path) -> None:
    """Refuse what is no model, or has nodes of our domain that this version does not know."""
    from onnx_sparse.cli.check import refuse_domain_errors
    from onnx_sparse.cli.model_file import existing_file, load_model
    from onnx_sparse.model_files import is_ort_format

    with existing_file(path).open("rb") as file:
        if is_ort_format(file.read(8)):  # only a session reads it
            return
    refuse_domain_errors(load_model(path), path)


def _engine(name: str) -> Callable[..., Iterator[tuple[Job, Done]]]:
    """What scores files: see `scoring.score_all`."""
    if name == "ray":
        from onnx_sparse.cli.scoring_ray import score_all
    elif name == "spark":
        import pyspark  # noqa: F401  # else it is its py4j that is missing

        from onnx_sparse.cli.scoring_spark import score_all
    else:
        from onnx_sparse.cli.scoring import score_all
    return score_all


def _jobs(arguments: argparse.Namespace) -> list[Job]:
    from onnx_sparse.cli.scoring import Job, origin_of

    with arguments.model.open("rb") as model:
        digest = hashlib.file_digest(model, "sha256").hexdigest()
    options: dict[str, Any] = {name: getattr(arguments, name) for name in ("columns", "keep", "outputs", "on_bad_row")}
    jobs: dict[Path, Job] = {}
    for source in _sources(arguments.rows):
        stem = source.name.partition(".")[0] if not source.name.startswith(".") else source.name
        target = arguments.output / f"{stem}.parquet"
        if target in jobs:
            raise UsageError(f"{jobs[target].source} and {source} would both become {target}")
        if target.exists() and os.path.samefile(target, source):
            raise UsageError(f"{source} would be replaced by its scores; give another folder")
        bad = arguments.output / "_bad" / target.name if arguments.on_bad_row == "skip" else None
        origin = origin_of(source, digest, **options)
        jobs[target] = Job(source, target, origin, bad, arguments.batch_rows, tuple(arguments.keep))
    return list(jobs.values())


def _sources(given: Sequence[str]) -> list[Path]:
    """The files that are named, in folders that are named, or that fit a pattern."""
    found: list[Path] = []
    for text in given:
        path = Path(text)
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
        elif path.exists():
            inside = [path]
        else:
            inside = [Path(name) for name in sorted(glob.glob(text, recursive=True)) if os.path.isfile(name)]
        if not inside:
            raise CommandError(f"{text}: there is no such file" if not path.is_dir() else f"{text} has no files")
        found += inside
    return list(dict.fromkeys(found))


@contextmanager
def _progress(sources: Sequence[Path], *, quiet: bool) -> Iterator[Any]:
    """A bar with rows per second and the time that is left, on a terminal."""
    import sys

    from onnx_sparse.cli.row_files import count_of

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


def _show(described: dict[str, Any], folder: Path) -> None:
    rows = [
        [Path(file["scores"]).name, f"{file['count']:,}", f"{file['bad']:,}", file["rows"]]
        for file in described["files"]
    ]
    if rows:
        output.table(["scores", ">rows", ">bad", "from"], rows, paths=["from"])
        output.write_line()
    speed = described["rows"] / max(described["seconds"], 1e-9)
    output.paragraph(f"{described['rows']:,} rows in {described['seconds']:.1f} s ({speed:,.0f} per second)")
    if described["skipped"]:
        count = len(described["skipped"])
        output.paragraph(f"{count} file{'s' * (count > 1)} of scores {'were' if count > 1 else 'was'} there already")
    if described["bad"]:
        output.paragraph(f"{described['bad']:,} rows could not be scored; see {folder / '_bad'}")
