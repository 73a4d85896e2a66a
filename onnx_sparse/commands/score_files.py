"""A model on files of rows: which files, what is checked before, and what became of each."""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands import Progress
from onnx_sparse.commands.named_values import named_values
from onnx_sparse.errors import CommandError, UsageError, printable
from onnx_sparse.installation import install_command

if TYPE_CHECKING:
    from onnx_sparse.arrow import Scorer
    from onnx_sparse.scoring.local_engine import Outcome
    from onnx_sparse.scoring.places import Place
    from onnx_sparse.scoring.row_sources import Source
    from onnx_sparse.scoring.score_file import Job

#: The extra with each package that is imported here.
_EXTRAS = {"pyarrow": "score", "ray": "ray", "pyspark": "spark"}
#: Rows of the first file that are tried together and alone.
_TRIED = 8
_LOG = logging.getLogger("onnx_sparse.score")


class Watch:
    """Who is told what happens meanwhile; here nobody is."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def rows(self, sources: Sequence[Source]) -> AbstractContextManager[Callable[[int, int], None]]:
        """While these are scored: what is called with the numbers of rows and of files that are done."""
        return nullcontext(lambda rows, files: None)


def score_files(arguments: argparse.Namespace, doing: Progress, watch: Watch | None = None) -> dict[str, Any]:
    """Score the files that arguments ask for; returns what `--json` says.

    Raises:
        CommandError: Nothing can be scored. Files that cannot be read are in what is returned.
    """
    try:
        from onnx_sparse.arrow import Scorer
        from onnx_sparse.files.new_file import remove_all_abandoned
        from onnx_sparse.scoring.places import place_of
        from onnx_sparse.sessions.ort_errors import ort_message

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
    watch = watch or Watch()
    jobs = _jobs(arguments, out, model, watch)
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
        jobs, left, lambda tell: score_all(scorer, left, arguments.workers, tell), doing, watch
    )


def _describe(
    jobs: Sequence[Job],
    left: Sequence[Job],
    score_all: Callable[[Callable[[int], None]], Iterator[tuple[Job, Outcome]]],
    doing: Progress,
    watch: Watch,
) -> dict[str, Any]:
    """Score the files, and say what became of each."""
    begun = time.monotonic()
    files: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    doing(f"scoring, 0 of {len(left)} files done")
    with watch.rows([job.source for job in left]) as show:

        def tell(rows: int) -> None:
            show(rows, len(files) + len(failed))

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


def _dependence(scorer: Scorer, jobs: Sequence[Job]) -> str | None:
    """Why scores would change with how rows are split: tried with generated rows, and with some of the first file."""
    from onnx_sparse.scoring.score_file import first_rows

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
    from onnx_sparse.commands.findings import refuse_domain_errors
    from onnx_sparse.models.external_data import data_file
    from onnx_sparse.models.graphs import all_tensors
    from onnx_sparse.models.load_and_save import existing_file, load_model
    from onnx_sparse.models.model_files import is_ort_format
    from onnx_sparse.scoring.places import Place

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
        from onnx_sparse.scoring.ray_engine import score_all
    elif name == "spark":
        import pyspark  # noqa: F401  # else it is its py4j that is missing

        from onnx_sparse.scoring.spark_engine import score_all
    else:
        from onnx_sparse.scoring.local_engine import score_all
    return score_all


def _kept(arguments: argparse.Namespace) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*arguments.keep, *arguments.partition_by]))


def _is_file(out: Place) -> bool:
    """Whether OUT is a file, not a folder of files."""
    return out.path.lower().endswith(".parquet") and not out.is_folder()


def _jobs(arguments: argparse.Namespace, out: Place, model: str, watch: Watch) -> list[Job]:
    import json

    import onnxruntime

    from onnx_sparse.scoring.row_files import kind_of
    from onnx_sparse.scoring.row_sources import sources_of
    from onnx_sparse.scoring.score_file import Job
    from onnx_sparse.version import __version__

    if len(arguments.csv_delimiter) != 1:
        raise UsageError(f"--csv-delimiter {arguments.csv_delimiter!r} is not one character")
    sources, foreign = sources_of(arguments.rows, lambda name: bool(kind_of(name)), out)
    if foreign:
        names = f"{foreign[0]}" + f" and {len(foreign) - 1} more" * (len(foreign) > 1)
        watch.note(f"passed over what holds no rows: {printable(names)}")
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
    from onnx_sparse.scoring.row_files import stem_of

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
