"""A model on files of rows: which files, what is checked before, and what became of each."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from onnx_sparse.commands import Progress
from onnx_sparse.errors import CommandError, UsageError, printable
from onnx_sparse.installation import install_command
from onnx_sparse.settings import Backend, FilePath, option, positive
from onnx_sparse.version import __version__

if TYPE_CHECKING:
    from onnx_sparse.arrow import Scorer
    from onnx_sparse.scoring.local_engine import Outcome
    from onnx_sparse.scoring.places import Place
    from onnx_sparse.scoring.row_sources import Source
    from onnx_sparse.scoring.score_file import Job

#: Ends of names of files that people expect to get, and that `score` does not write; and those of compressed ones.
_OTHER_FORMATS = frozenset({".tsv", ".arrow", ".feather", ".npz", ".npy", ".xlsx", ".orc"})
_COMPRESSED = frozenset({".gz", ".bz2", ".zst", ".lz4", ".xz", ".zip"})
#: The output that is no file.
_STREAM = "-"
#: The extra with each package that is imported here.
_EXTRAS = {"pyarrow": "score", "ray": "ray", "pyspark": "spark"}
#: Rows of the first file that are tried together and alone.
_TRIED = 8
_LOG = logging.getLogger("onnx_sparse.score")
#: Why files that are there are not both kept and replaced.
_ONE_OF = "one keeps the files that the other replaces"


def _most_bad_rows(text: str) -> str:
    """A number of rows, or of a hundred, as it is."""
    try:
        number = float(text.removesuffix("%")) if text.endswith("%") else int(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a number of rows nor a percentage, as 0.1%") from None
    if not 0 <= number < float("inf"):
        raise ValueError(f"{text} is not a number >= 0")
    if text.endswith("%") and number > 100:
        raise ValueError(f"{text} is more than 100% of the rows")
    return text


@dataclass(frozen=True)
class ScoreSettings:
    """What `score` is asked for: the arguments of `onnx_sparse.score`, and the options of `onnx-sparse score`."""

    model: FilePath = field(
        metadata=option("an ONNX file, or the folder of a model that is split", "MODEL", position=True)
    )
    rows: FilePath | Sequence[FilePath] = field(
        metadata=option("a file, a folder of them, or a pattern in quotes", "ROWS", position=True, parse=str)
    )
    output: FilePath = field(
        metadata=option(
            "the folder for the scores; a file if it ends in .parquet, .csv, .json or .jsonl; - for standard output "
            "(CSV if the rows are CSV, else JSON lines)",
            "OUT",
            short="-o",
            parse=str,
        )
    )
    _: KW_ONLY
    columns: Mapping[str, str] | None = field(
        default=None, metadata=option("the column of a feature", "FEATURE=COLUMN")
    )
    keep: Sequence[str] = field(default=(), metadata=option("a column to keep; repeatable", "COLUMN"))
    column_types: Mapping[str, str] | None = field(
        default=None,
        metadata=option(
            "the type of a kept column of CSV, JSON lines or folders, such as int64; CSV and folders default to text",
            "COLUMN=TYPE",
            flag="--column-type",
        ),
    )
    csv_delimiter: str = field(default=",", metadata=option("the separator of cells in CSV", "C"))
    outputs: Sequence[str] | None = field(
        default=None, metadata=option("an output; all when omitted; repeatable", "NAME")
    )
    partition_by: Sequence[str] = field(
        default=(),
        metadata=option("write OUT/COLUMN=value/..., a folder for each value of a kept column; repeatable", "COLUMN"),
    )
    engine: Literal["local", "ray", "spark"] = field(
        default="local", metadata=option("what runs the workers (default: local)")
    )
    workers: int = field(default=1, metadata=option("how many processes (default: 1)", "N", parse=positive))
    batch_rows: int = field(
        default=25_000, metadata=option("the most rows of a batch (default: 25000)", "N", parse=positive)
    )
    dependent_rows: Literal["refuse", "alone", "batch"] = field(
        default="refuse",
        metadata=option(
            "for a model whose answers change with the other rows of a batch. alone: run it on each row by itself; "
            "batch: run it on the batches of the files (default: refuse)"
        ),
    )
    on_bad_row: Literal["fail", "skip"] = field(
        default="fail",
        metadata=option("skip: rows that do not fit are written to OUT/_bad, with the reason (default: fail)"),
    )
    max_bad_rows: int | str | None = field(
        default=None,
        metadata=option(
            "skip bad rows, and fail (a shell's status is 3) if there are more than N of them, or more than P percent",
            "N|P%",
            parse=_most_bad_rows,
        ),
    )
    resume: bool = field(default=False, metadata=option("keep files of scores that are up to date", alone=_ONE_OF))
    overwrite: bool = field(default=False, metadata=option("replace files of scores", alone=_ONE_OF))
    backend: Backend = field(default="auto", metadata=option("which kernels run"))

    @property
    def paths(self) -> list[str]:
        """The files, folders and patterns of rows.

        Raises:
            TypeError: They are something else, such as the rows themselves.
        """
        rows = [self.rows] if isinstance(self.rows, (str, os.PathLike)) else self.rows
        if not isinstance(rows, Sequence) or not all(isinstance(path, (str, os.PathLike)) for path in rows):
            kind = type(self.rows).__name__
            raise TypeError(f"rows: expected paths of files, got {kind}; session.predict takes rows in memory")
        return [os.fspath(path) for path in rows]

    @property
    def skips(self) -> bool:
        """Whether bad rows are skipped."""
        return self.on_bad_row == "skip" or self.max_bad_rows is not None

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that are kept: also those for folders."""
        return tuple(dict.fromkeys([*self.keep, *self.partition_by]))

    def decisive(self) -> dict[str, Any]:
        """What the scores depend on, but for the files and ONNX Runtime."""
        names = ("outputs", "csv_delimiter", "batch_rows", "dependent_rows", "backend", "partition_by")
        return {
            **{name: getattr(self, name) for name in names},
            "on_bad_row": "skip" if self.skips else "fail",
            "columns": [f"{name}={column}" for name, column in (self.columns or {}).items()],
            "column_type": [f"{column}={kind}" for column, kind in (self.column_types or {}).items()],
            "keep": self.kept,
            "onnx_sparse": __version__,
        }

    def too_many_bad(self, scored: Scored) -> str | None:
        """What is said if more rows could not be scored than are allowed."""
        if self.max_bad_rows is None:
            return None
        text = _most_bad_rows(str(self.max_bad_rows))
        limit = scored["rows"] * float(text[:-1]) / 100 if text.endswith("%") else int(text)
        if scored["bad"] <= limit:
            return None
        most = f"{float(text[:-1]):g}%" if text.endswith("%") else f"{limit:,}"
        return (
            f"{scored['bad']:,} of {scored['rows']:,} rows could not be scored, more than --max-bad-rows {most}; "
            f"see {scored['bad_rows']}"
        )


class ScoredFile(TypedDict):
    """A file of scores: the file of its rows, and how many rows and bad rows that has."""

    rows: str
    scores: str
    count: int
    bad: int


class FailedFile(TypedDict):
    """A file of rows that could not be read, and why."""

    rows: str
    error: str


class Scored(TypedDict):
    """What `score` has done, as `--json` says it; `rows_depend` is why rows depend on each other, if they do."""

    rows_depend: str | None
    bad_rows: str
    files: list[ScoredFile]
    failed: list[FailedFile]
    skipped: list[str]
    rows: int
    bad: int
    seconds: float


class Watch:
    """Who is told what happens meanwhile; here nobody is."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def rows(self, sources: Sequence[Source]) -> AbstractContextManager[Callable[[int, int], None]]:
        """While these are scored: what is called with the numbers of rows and of files that are done."""
        return nullcontext(lambda rows, files: None)


def score_files(settings: ScoreSettings, doing: Progress = lambda stage: None, watch: Watch | None = None) -> Scored:
    """Score the files that settings ask for.

    Raises:
        CommandError: Nothing can be scored. Files that cannot be read are in what is returned.
    """
    try:
        from onnx_sparse.scoring.places import place_of

        score_all = _engine(settings.engine)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        what = "score" if package == "pyarrow" else f"--engine {settings.engine}"
        raise CommandError(f"{what} needs {package}: {install_command(_EXTRAS[package])}") from None
    out = place_of(os.fspath(settings.output))
    _refuse_other_formats(out)
    if out.path == _STREAM and settings.engine != "local":
        raise UsageError(f"-o - is written by this process, not by --engine {settings.engine}; give a file or a folder")
    model = _model_digest(Path(settings.model))
    watch = watch or Watch()
    jobs = _jobs(settings, out, model, watch)
    with nullcontext() if out.store or _is_file(out) else _folder(out):
        return _score_jobs(settings, jobs, out, score_all, doing, watch)


@contextmanager
def _folder(out: Place) -> Iterator[None]:
    """The folder of the scores, removed again if nothing is written into it.

    Raises:
        CommandError: It is no folder.
    """
    path = Path(out.path)
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        ends = "does not end in .parquet, .csv, .json or .jsonl"
        raise CommandError(f"cannot write {out}: it is not a folder, and {ends}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # it holds something
            for folder in made:
                folder.rmdir()


def _score_jobs(
    settings: ScoreSettings, jobs: Sequence[Job], out: Place, score_all: Any, doing: Progress, watch: Watch
) -> Scored:
    """Score the files that are not up to date."""
    from onnx_sparse.arrow import Scorer
    from onnx_sparse.scoring.score_file import remove_abandoned_scores
    from onnx_sparse.sessions.ort_errors import ort_message

    columns, path = dict(settings.columns or {}), Path(settings.model)
    left = [job for job in jobs if not (settings.resume and job.is_done())]
    # Also where nothing is written any more.
    remove_abandoned_scores(jobs)
    if not (settings.resume or settings.overwrite):
        existing = next((job for job in left if job.exists()), None)
        if existing is not None:
            bad = existing.first_bad()
            raise CommandError(
                f"{existing.target} is there already{f' ({bad})' if bad else ''}; --resume keeps complete files, "
                "--overwrite replaces them"
            )
    with _model(path, settings) as given:
        scorer = Scorer(
            given,
            columns=columns,
            keep=settings.kept,
            outputs=settings.outputs,
            backend=settings.backend,
            check_rows=False,
        )
        try:
            known = scorer.features  # before any process is started
        except ValueError as error:
            raise CommandError(str(error)) from None
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            raise CommandError(f"{path} does not load: {ort_message(error)}") from error
        if unknown := [name for name in columns if name not in known]:
            raise UsageError(f"the model has no feature {unknown[0]}; it has {', '.join(known)}")
        depends = _dependence(scorer, left)
        if depends is not None and settings.dependent_rows == "refuse":
            raise CommandError(
                f"{depends}, so the scores would change with --batch-rows and with how files are split; "
                "--dependent-rows alone runs the model on each row by itself, --dependent-rows batch on batches as "
                "they come"
            )
        bad_folder = (out.parent if _is_file(out) else out) / "_bad"
        run = functools.partial(score_all, scorer, left, settings.workers)
        return _scored(depends, str(bad_folder), jobs, left, run, doing, watch)


@contextmanager
def _model(path: Path, settings: ScoreSettings) -> Iterator[Any]:
    """What is scored with: a path, or the actors of a model that is split, which all workers ask."""
    from onnx_sparse.sharding.manifest import is_split

    if settings.engine != "ray" or not is_split(path):
        yield path
        return
    from onnx_sparse.ray import ShardedModel
    from onnx_sparse.scoring.ray_start import started

    with started(settings.workers), ShardedModel(path, cpus=0, threads=1, backend=settings.backend) as model:
        yield model


def _scored(
    depends: str | None,
    bad_folder: str,
    jobs: Sequence[Job],
    left: Sequence[Job],
    score_all: Callable[[Callable[[int], None]], Iterator[tuple[Job, Outcome]]],
    doing: Progress,
    watch: Watch,
) -> Scored:
    """Score the files, and say what became of each."""
    begun = time.monotonic()
    files: list[ScoredFile] = []
    failed: list[FailedFile] = []
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
        "rows_depend": depends,
        "bad_rows": bad_folder,
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
    from onnx_sparse.commands.description.findings import refuse_domain_errors
    from onnx_sparse.models.files.external_data import data_file
    from onnx_sparse.models.files.load_and_save import existing_file, load_model
    from onnx_sparse.models.files.model_files import is_ort_format
    from onnx_sparse.models.graphs import all_tensors
    from onnx_sparse.scoring.places import Place
    from onnx_sparse.sharding.manifest import is_split, read_manifest

    if is_split(path):
        return read_manifest(path).version
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


def _refuse_other_formats(out: Place) -> None:
    """Refuse an OUT with the name of a file of another format, which would become a folder.

    Raises:
        UsageError: It is not a folder that is there, or named as one with a slash.
    """
    from onnx_sparse.scoring.text_scores import FORMATS

    name = PurePosixPath(out.path)
    suffixes = [suffix.lower() for suffix in name.suffixes]
    inner = {suffixes[-2]} if len(suffixes) > 1 and suffixes[-1] in _COMPRESSED else set()
    is_other = suffixes and (suffixes[-1] in _OTHER_FORMATS or inner & {*FORMATS, *_OTHER_FORMATS, ".parquet"})
    if is_other and not out.path.endswith("/") and not out.is_folder():
        ways = f"use -o {name.stem.partition('.')[0]}.parquet for one file, or -o {name.stem}/ for a folder"
        raise UsageError(f"-o {out}: scores are Parquet, CSV or JSON files; {ways}")


def _is_file(out: Place) -> bool:
    """Whether OUT is a file, not a folder of files."""
    from onnx_sparse.scoring.text_scores import FORMATS

    is_named = PurePosixPath(out.path).suffix.lower() in (".parquet", *FORMATS) and not out.path.endswith("/")
    return out.path == _STREAM or (is_named and not out.is_folder())


def _text(source: Source, out: Place) -> str:
    """How the scores of a file are written as text; empty for Parquet."""
    from onnx_sparse.scoring.row_files import kind_of
    from onnx_sparse.scoring.text_scores import FORMATS

    if out.path == _STREAM:
        return "csv" if kind_of(source.relative) in (".csv", ".tsv") else "jsonl"
    return FORMATS.get(PurePosixPath(out.path).suffix.lower(), "") if _is_file(out) else ""


def _jobs(settings: ScoreSettings, out: Place, model: str, watch: Watch) -> list[Job]:
    import json

    import onnxruntime

    from onnx_sparse.scoring.row_files import kind_of
    from onnx_sparse.scoring.row_sources import sources_of
    from onnx_sparse.scoring.score_file import Job

    if len(settings.csv_delimiter) != 1:
        raise UsageError(f"--csv-delimiter {settings.csv_delimiter!r} is not one character")
    sources, foreign = sources_of(settings.paths, lambda name: bool(kind_of(name)), out)
    if foreign:
        names = f"{foreign[0]}" + f" and {len(foreign) - 1} more" * (len(foreign) > 1)
        watch.note(f"passed over what holds no rows: {printable(names)}")
    if _is_file(out) and (len(sources) > 1 or settings.partition_by):
        what = "--partition-by makes folders" if settings.partition_by else f"there are {len(sources)} files of rows"
        raise UsageError(f"-o {out} is one file, and {what}; give a folder")
    given = json.dumps({**settings.decisive(), "model": model, "onnxruntime": onnxruntime.__version__}, sort_keys=True)
    asked = _asked_types(settings)
    jobs: dict[Place, Job] = {}
    for source in sources:
        target, bad = _targets(source, out, partitioned=bool(settings.partition_by))
        if target in jobs:
            raise UsageError(f"{jobs[target].source} and {source} would both become {target}")
        if _is_same(source.place, target):
            raise UsageError(f"{source} would be replaced by its scores; give another folder")
        jobs[target] = Job(
            source,
            target,
            given,
            bad,
            settings.skips,
            settings.batch_rows,
            settings.kept,
            asked,
            settings.csv_delimiter,
            tuple(settings.partition_by),
            settings.dependent_rows == "alone",
            _text(source, out),
            out.path == _STREAM,
        )
    return list(jobs.values())


def _asked_types(settings: ScoreSettings) -> dict[str, Any]:
    import pyarrow as pa

    found = {}
    for name, text in (settings.column_types or {}).items():
        if name not in settings.kept:
            raise UsageError(f"--column-type {name}={text}: the column is not kept; --keep={name} keeps it")
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
        stem = stem_of(source.relative) if out.path == _STREAM else PurePosixPath(out.name).stem
        return out, out.parent / "_bad" / f"{stem}.parquet"
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
