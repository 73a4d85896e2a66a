"""What `convert` does, in Python as in a shell: refuse what makes no sense, convert, verify, write and report."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from onnx_sparse.commands.conversion import written_inputs
from onnx_sparse.commands.conversion.settings import ConvertSettings
from onnx_sparse.commands.sources import verification
from onnx_sparse.converters.errors import ConversionError, UnknownSourceError
from onnx_sparse.converters.roads.road import AnyRoad
from onnx_sparse.converters.roads.table import refuse_foreign, refuse_missing, road_named, road_of, roads
from onnx_sparse.errors import CommandError, UsageError
from onnx_sparse.settings import settings_of

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.commands.conversion.smaller_tables import SmallerTables, Tables
    from onnx_sparse.commands.sources.explanation import Rules
    from onnx_sparse.commands.sources.steps import Conversion
    from onnx_sparse.commands.sources.verification import Verified
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


def check(settings: ConvertSettings) -> AnyRoad:
    """The road of the source. All that can be refused early is refused here, before minutes of work.

    Raises:
        CommandError: The source cannot be read, or a file cannot be written.
        UsageError: Settings make no sense together, or for this source.
    """
    from onnx_sparse.commands.inputs.feeds import read_files
    from onnx_sparse.files.new_file import PAGE_SUFFIXES, check_writable
    from onnx_sparse.models.files.suffixes import WRITTEN_SUFFIXES

    road = _road(settings)
    road.check(road.options(**settings.of_road(road)), explain=settings.explain, verify=settings.is_verified)
    _refuse_options_of_others(road, settings)
    _check_bounds(settings)
    if settings.opset is not None:
        _check_opset(settings.opset)
    files: list[str] = [] if isinstance(settings.given, Mapping) else [*read_files(settings.given)]
    parts = [] if settings.path is None else road.parts(settings.path)
    keep: list[str | Path] = [*parts, *files]
    if settings.write_inputs is not None:
        check_writable(Path(settings.write_inputs), *written_inputs.SUFFIXES, keep=keep)
    if settings.target is not None:
        suffixes = () if settings.target == settings.path else WRITTEN_SUFFIXES
        check_writable(settings.target, *suffixes, keep=[] if road.converts_in_place else keep)
    if settings.report is not None:
        if settings.target is None:
            raise UsageError("--report is about a file: give --output, too")
        check_writable(Path(settings.report), *PAGE_SUFFIXES, keep=keep)
        if Path(settings.report).absolute() == settings.target.absolute():
            raise UsageError(f"--report {settings.report}: it is the model's file; give another one")
    return road


def _road(settings: ConvertSettings) -> AnyRoad:
    """The road that is asked for, or the one of the source."""
    try:
        if settings.path is not None:
            refuse_missing(settings.path)
        if settings.origin is None:
            return road_of(settings.source)
        road = road_named(settings.origin)
        if settings.path is not None:
            refuse_foreign(settings.path, road)
        return road
    except UnknownSourceError as error:
        raise UsageError(f"{error}; use --from") from error
    except ConversionError as error:
        raise CommandError(error) from error


def _refuse_options_of_others(road: AnyRoad, settings: ConvertSettings) -> None:
    own = {each.name for each in fields(road.options)}
    known = {each.name: each for each in settings_of(type(settings))}
    for other in roads().values():
        for each in settings_of(other.options):
            if each.name not in own and getattr(settings, each.name) != each.default:
                raise UsageError(f"{known[each.name].flag} is for {other.models}, and this source is {road.name}")


def _check_bounds(settings: ConvertSettings) -> None:
    given = {name: value for name, value in settings.bounds.items() if value}
    if given and not settings.is_verified:
        name = next(iter(given))
        raise UsageError(f"--{name.replace('_', '-')} is for a verification: give --verify, too")
    for name, value in given.items():
        if not value >= 0:
            raise UsageError(f"--{name.replace('_', '-')} {value}: expected a number from 0 on")


def _check_opset(opset: int) -> None:
    from onnx_sparse.commands.description.ort_limits import find_limits
    from onnx_sparse.schemas.function_body import BODY_OPSET

    newest = find_limits().opset
    if not BODY_OPSET <= opset <= newest:
        message = (
            f"models are written in opsets from {BODY_OPSET} on, and the installed onnx and ONNX Runtime take {newest} "
            "at most"
        )
        raise UsageError(f"--opset {opset}: {message}") from ConversionError(f"opset={opset}: {message}")


def convert_source(road: AnyRoad, settings: ConvertSettings, *, keeps_model: bool = False) -> Converted:
    """Convert, verify and write a model.

    Args:
        road: What `check` returned.
        settings: What is asked for.
        keeps_model: Whether the model keeps the tensors that are written to a file of external data.

    Raises:
        CommandError: The source cannot be converted, or a file not be written.
    """
    from onnx_sparse.commands.conversion.smaller_tables import SmallerTables
    from onnx_sparse.commands.inputs.feeds import read_feeds
    from onnx_sparse.commands.sources.steps import Conversion
    from onnx_sparse.files.new_file import state_of
    from onnx_sparse.models.files.load_and_save import save_model

    path, target, tell = settings.path, settings.target, settings.tell
    in_place = path is not None and target is not None and target.exists() and target.samefile(path)
    made_from = state_of(target) if in_place and target is not None else None
    conversion = Conversion(
        road,
        settings.source if path is None else path,
        settings.of_road(road),
        check_ids=settings.check_ids,
        features=settings.features,
    )
    plain = conversion.convert(tell)
    if settings.write_inputs is not None:
        tell("making inputs")
        written_inputs.write_inputs(Path(settings.write_inputs), plain)
    model = _in_form(plain, settings)
    given = settings.given
    feeds: Mapping[str, Any] | None = given if isinstance(given, Mapping) else None
    if given and feeds is None:
        feeds = read_feeds(plain, list(given), option="--verify-with")
    records = conversion.verify(plain, model, tell, feeds, **settings.bounds) if settings.is_verified else None
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
        "from": road.name,
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
    """The model in the form that is asked for."""
    from onnx_sparse.models.forms import function_bodies
    from onnx_sparse.models.tools.opsets import in_opset

    try:
        if settings.lower:
            return function_bodies.lower(model, opset=settings.opset)
        if settings.opset is not None:
            model = in_opset(model, settings.opset)
        return function_bodies.embed_functions(model) if settings.portable else model
    except ValueError as error:
        raise CommandError(error) from error


def _summary(model: ModelProto) -> dict[str, Any]:
    from onnx_sparse.commands.inputs.model_graph import nodes, opset_imports, other_domains

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
    from onnx_sparse.commands.reports.model_report import gather, write_page
    from onnx_sparse.commands.reports.origin import Origin, picture_of_source
    from onnx_sparse.models.files.load_and_save import save_model

    page, target = Path(settings.report or ""), settings.target
    assert target is not None
    made = Origin(settings.path or Path("the model"), conversion.road, notes=list(conversion.notes))
    made.picture = picture_of_source(made, conversion.loaded)
    made.rules = conversion.report.document().get("rules")
    made.verification = None if records is None else [verification.document(record) for record in records]
    made.verified_inputs = conversion.input_lines
    made.options = settings.of_road(conversion.road)
    made.is_timed = settings.path is not None
    if refused is None:
        write_page(gather(target, made, progress=settings.tell), page)
        return
    made.notes.insert(0, str(why))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / target.name
        save_model(refused, path, external=settings.external_data)
        write_page(gather(path, made, times=False, progress=settings.tell), page)
