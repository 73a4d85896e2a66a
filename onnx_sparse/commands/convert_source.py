"""What `convert` does, in Python as in a shell: refuse what makes no sense, convert, verify, write and report."""

from __future__ import annotations

import glob
import importlib
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from onnx_sparse.commands import lookup_tables, verification, written_inputs
from onnx_sparse.commands.convert_settings import ConvertSettings
from onnx_sparse.converters.errors import ConversionError, UnknownSourceError
from onnx_sparse.errors import CommandError, UsageError
from onnx_sparse.settings import settings_of

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.commands.conversion import Conversion
    from onnx_sparse.commands.explanation import Rules
    from onnx_sparse.commands.smaller_tables import SmallerTables, Tables
    from onnx_sparse.commands.verification import Verified
    from onnx_sparse.converters.verification.comparison import Record


class ConvertDocument(TypedDict):
    """What `--json` says of a conversion."""

    source: str
    output: str | None
    nodes: int
    our_nodes: dict[str, int]
    other_domains: list[str]
    functions: int
    opsets: dict[str, int]
    ir_version: int
    size: NotRequired[int]
    source_nodes: NotRequired[int]
    nodes_before_rules: NotRequired[int]
    rules: NotRequired[Rules]
    verification: list[Verified] | None
    verified_inputs: Mapping[str, str] | None
    tables: Tables | None
    notes: NotRequired[Sequence[str]]
    report: NotRequired[str]


@dataclass(frozen=True)
class Converted:
    """A model that was converted.

    Attributes:
        model: The model; what was written to a file of external data is no longer in it.
        conversion: How it was made.
        records: How far the answers of both are apart; None if they were not compared.
        failure: Why verification refused it; None if it did not.
        smaller: What became of its tables; None if they were to stay.
        document: What `--json` says.
    """

    model: ModelProto
    conversion: Conversion
    records: Sequence[Record] | None
    failure: str | None
    smaller: SmallerTables | None
    document: ConvertDocument


def check(settings: ConvertSettings) -> str:
    """What the source is. All that can be refused early is refused here, before minutes of work.

    Raises:
        CommandError: The source cannot be read, or a file cannot be written.
        UsageError: Settings make no sense together, or for this source.
    """
    from onnx_sparse.commands.feeds import read_files
    from onnx_sparse.files.new_file import check_writable

    if settings.path is not None:
        _check_path(settings.path)
    origin = settings.origin or _detected(settings.source)
    _check_ascend(origin, settings)
    for setting in settings_of(ConvertSettings):
        option, is_given = setting.option, getattr(settings, setting.name) != setting.default
        if option and option.sources and origin not in option.sources and is_given:
            raise UsageError(f"{setting.flag} is for {option.owner}, and this source is {origin}")
    if settings.explain and origin == "onnx" and not settings.fuse:
        raise UsageError("--explain of an ONNX file is for --fuse")
    if settings.opset is not None:
        _check_opset(settings.opset)
    written_inputs.check(settings.write_inputs)
    if settings.repair_scatter and not settings.fuse:
        raise UsageError("--repair-scatter is for --fuse")
    if settings.repair_scatter and settings.is_verified:
        raise UsageError("--repair-scatter changes the answers, so that --verify cannot compare with the file")
    files: list[str] = [] if isinstance(settings.given, Mapping) else [*read_files(settings.given)]
    keep: list[str | Path] = [*_parts(settings.path), *files]
    if settings.target is not None:
        check_writable(settings.target, keep=[] if origin == "onnx" else keep)  # such a file may be converted in place
    if settings.report is not None:
        if settings.target is None:
            raise UsageError("--report is about a file: give --output, too")
        check_writable(Path(settings.report), keep=keep)
        if Path(settings.report).absolute() == settings.target.absolute():
            raise UsageError(f"--report {settings.report}: it is the model's file; give another one")
    return origin


def _check_path(source: Path) -> None:
    """Refuse what does not exist, and the files of TensorFlow that are parts of others."""
    from onnx_sparse.converters.tensorflow.source_files import is_checkpoint_file, refuse_other_files

    is_prefix = any(source.parent.glob(f"{glob.escape(source.name)}.*"))  # of a checkpoint
    if not source.exists() and not (is_prefix and is_checkpoint_file(source)):
        raise CommandError(f"{source}: no such file or directory")
    if is_checkpoint_file(source):
        try:
            refuse_other_files(source)
        except ConversionError as error:
            raise CommandError(error) from error
    if source.is_file() and source.name == "saved_model.pb" and _begins_like_a_saved_model(source):
        raise CommandError(f"{source} belongs to a SavedModel; give its directory, {source.parent}")


def _begins_like_a_saved_model(path: Path) -> bool:
    """Whether a file begins with a SavedModel's version, and not with a node: said before TensorFlow is imported."""
    with path.open("rb") as file:
        return file.read(1) == b"\x08"


def _detected(source: Any) -> str:
    from onnx_sparse.converters.roads.table import road_of

    try:
        return road_of(source).name
    except UnknownSourceError as error:
        raise UsageError(f"{error}; use --from") from error
    except ConversionError as error:
        raise CommandError(error) from error


def _check_ascend(origin: str, settings: ConvertSettings) -> None:
    """Refuse to run Ascend's graphs, and ways to name inputs that they do not have."""
    inputs = settings.inputs or ()
    names = inputs if not isinstance(inputs, Mapping) and any(name.count(":") < 2 for name in inputs) else ()
    if origin == "ascend" and (settings.is_verified or settings.signature or names or settings.outputs):
        raise UsageError(
            "--verify, --signature, --inputs and --outputs are not for Ascend's graphs: describe their inputs with "
            "--input-spec NAME:DTYPE:2,3, and `onnx-sparse replay` compares with a dump's own tensors"
        )


def _check_opset(opset: int) -> None:
    from onnx_sparse.commands.ort_limits import find_limits
    from onnx_sparse.schemas.function_body import BODY_OPSET

    newest = find_limits().opset
    if not BODY_OPSET <= opset <= newest:
        message = (
            f"models are written in opsets from {BODY_OPSET} on, and the installed onnx and ONNX Runtime take {newest} "
            "at most"
        )
        raise UsageError(f"--opset {opset}: {message}") from ConversionError(f"opset={opset}: {message}")


def _parts(source: Path | None) -> list[Path]:
    """The files and folders that a source consists of: those of a SavedModel, or an IR with its weights."""
    if source is None:
        return []
    if source.is_dir():
        return [source / part for part in ("saved_model.pb", "saved_model.pbtxt", "variables", "assets")]
    return [source, source.with_suffix(".bin")]


def _of_source(origin: str, settings: ConvertSettings) -> dict[str, Any]:
    """What the source's own `load` or `convert` is given, with the contents of files and modules."""
    found = settings.of_source(origin)
    if "lookup_tables" in found:
        found["lookup_tables"] = lookup_tables.read(found["lookup_tables"])
    if modules := found.pop("imports", ()):
        found["custom_objects"] = _definitions(modules) | dict(found.get("custom_objects", {}))
    return found


def _definitions(modules: Sequence[str]) -> dict[str, Any]:
    """The classes and functions of modules, which are imported; the current directory is searched, too."""
    found: dict[str, Any] = {}
    sys.path.insert(0, str(Path.cwd()))
    try:
        for name in modules:
            module = importlib.import_module(name)
            own = (value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__)
            found |= {value.__name__: value for value in own if callable(value)}
    except Exception as error:  # whatever the module raises
        raise CommandError(f"--import {name}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return found


def convert_source(origin: str, settings: ConvertSettings, *, keeps_model: bool = False) -> Converted:
    """Convert, verify and write a model.

    Args:
        origin: What `check` returned.
        settings: What is asked for.
        keeps_model: Whether the model keeps the tensors that are written to a file of external data.

    Raises:
        CommandError: The source cannot be converted, or a file not be written.
    """
    from onnx_sparse.commands.conversion import Conversion, Options
    from onnx_sparse.commands.feeds import read_feeds
    from onnx_sparse.commands.smaller_tables import SmallerTables
    from onnx_sparse.files.new_file import state_of
    from onnx_sparse.models.load_and_save import save_model

    path, target, tell = settings.path, settings.target, settings.tell
    in_place = path is not None and target is not None and target.exists() and target.samefile(path)
    made_from = state_of(target) if in_place and target is not None else None
    of_source = _of_source(origin, settings)
    asked = Options(settings.fuse, settings.repair_scatter, settings.check_ids, settings.features, of_source)
    conversion = Conversion(origin, settings.source if path is None else path, asked)
    plain = conversion.convert(tell)
    if settings.write_inputs is not None:
        tell("making inputs")
        written_inputs.write(Path(settings.write_inputs), plain)
    model = _in_form(plain, settings)
    given = settings.given
    feeds: Mapping[str, Any] | None = given if isinstance(given, Mapping) else None
    if given and feeds is None:
        feeds = read_feeds(plain, list(given), option="--verify-with")
    records = conversion.verify(plain, model, tell, feeds) if settings.is_verified else None
    failure = verification.failure(records or (), given=bool(given))
    smaller = None
    if settings.tables and failure is None:
        tell(f"making tables {settings.tables}")
        smaller = SmallerTables(plain, settings.tables)
        model = _in_form(smaller.model, settings)
        if records is not None:
            smaller.distances = conversion.verify(smaller.model, model, tell, feeds)
    size: dict[str, int] = {}
    summary = _summary(model)
    if failure is None and target is not None:
        written = model
        if keeps_model:
            written = type(model)()
            written.CopyFrom(model)
        size["size"] = save_model(
            written,
            target,
            external=settings.external_data,
            leave_tables=settings.leave_tables,
            made_from=made_from,
        )
    if settings.report is not None:
        _write_report(conversion, records, settings, refused=None if failure is None else model, why=failure)
    document: Any = {
        "source": "the model" if path is None else str(path),
        "from": origin,
        "output": str(target) if failure is None and target is not None else None,
        **summary,
        **size,
        **conversion.report.document(),
        "verification": None if records is None else [verification.document(record) for record in records],
        "verified_inputs": conversion.input_lines or None,
        "tables": None if smaller is None else smaller.document(),
        **({"notes": conversion.notes} if conversion.notes else {}),
        **({"report": str(settings.report)} if settings.report is not None else {}),
    }
    return Converted(model, conversion, records, failure, smaller, document)


def _in_form(model: ModelProto, settings: ConvertSettings) -> ModelProto:
    from onnx_sparse.commands.conversion import in_form

    return in_form(model, portable=settings.portable, lower=settings.lower, opset=settings.opset)


def _summary(model: ModelProto) -> dict[str, Any]:
    from onnx_sparse.commands.model_graph import nodes, opset_imports, other_domains

    placed = list(nodes(model))
    return {
        "nodes": len(placed),
        "our_nodes": dict(Counter(p.operator for p in placed if p.is_ours).most_common()),
        "other_domains": other_domains(model),
        "functions": len(model.functions),
        "opsets": opset_imports(model),
        "ir_version": model.ir_version,
    }


def _write_report(
    conversion: Conversion,
    records: Sequence[Record] | None,
    settings: ConvertSettings,
    *,
    refused: ModelProto | None,
    why: str | None,
) -> None:
    """Write the report about the model that has been written, or about one that verification refused."""
    from onnx_sparse.commands.model_report import gather, write
    from onnx_sparse.commands.origin import Origin, picture_of_source
    from onnx_sparse.models.load_and_save import save_model

    page, target = Path(settings.report or ""), settings.target
    assert target is not None
    made = Origin(settings.path or Path("the model"), conversion.origin, notes=list(conversion.notes))
    made.picture = picture_of_source(made, conversion.loaded)
    made.rules = conversion.report.document().get("rules")
    made.verification = None if records is None else [verification.document(record) for record in records]
    made.verified_inputs = conversion.input_lines
    made.options, made.is_timed = conversion.load_options
    if not made.is_timed:
        made.notes.append("the source is not timed: it needs the modules of --import")
    if settings.path is None:
        made.is_timed = False
    if refused is None:
        write(gather(target, made, progress=settings.tell), page)
        return
    made.notes.insert(0, str(why))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / target.name
        save_model(refused, path, external=settings.external_data)
        write(gather(path, made, times=False, progress=settings.tell), page)
