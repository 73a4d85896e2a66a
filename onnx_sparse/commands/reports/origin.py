"""What a report says of the source of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands import Progress
from onnx_sparse.converters.roads.road import AnyRoad
from onnx_sparse.converters.roads.table import road_of
from onnx_sparse.errors import CommandError

if TYPE_CHECKING:
    from onnx_sparse.pictures import Picture


@dataclass
class Origin:
    """What is known of the source of a model.

    Attributes:
        source: Its file or folder.
        road: Its road.
        picture: Its graph; None if it cannot be drawn.
        rules: The rules that were applied to it.
        verification: How far the answers of both are apart; None if that was not tried.
        verified_inputs: What inputs were taken for.
        notes: What the converter warned of, and what could not be done.
        options: The options of its road that are given.
        is_timed: Whether the source can be loaded once more, to be timed.
    """

    source: Path
    road: AnyRoad
    picture: Picture | None = None
    rules: Mapping[str, Any] | None = None
    verification: Sequence[Mapping[str, Any]] | None = None
    verified_inputs: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    options: Mapping[str, Any] = field(default_factory=dict)
    is_timed: bool = True


def picture_of_source(made: Origin, loaded: Any) -> Picture | None:
    """The picture of a source; a note where there is none."""
    from onnx_sparse.reports.source_picture import source_picture

    title = made.road.title
    picture = source_picture(made.road, loaded, f"Before: {made.source.name} ({title})")
    if picture is None:
        made.notes.append(f"no picture of {made.source.name}: a graph of {title} of its size or kind has none")
    return picture


def is_there(road: AnyRoad) -> bool:
    """Whether the package that runs a source is installed."""
    return bool(road.needs) and find_spec(road.needs) is not None


def with_source(model: Path, source: Path, options: Mapping[str, Any], progress: Progress) -> Origin:
    """What is known of a source without another conversion: its picture, and a verification.

    Raises:
        CommandError: It cannot be read.
    """
    from onnx_sparse.commands.sources import verification
    from onnx_sparse.commands.sources.steps import in_words_of_commands, loaded_source
    from onnx_sparse.models.files.load_and_save import load_model

    with in_words_of_commands():
        road = road_of(source)
    made = Origin(source, road, options=options)
    progress(f"reading {source}")
    loaded = loaded_source(road, source, road.choose(options), progress)
    made.picture = picture_of_source(made, loaded)
    if not is_there(road):
        why = f"{road.needs} is not installed" if road.needs else f"no program here runs {road.models}"
        made.notes.append(f"not verified: {why}")
        return made
    progress("verifying")
    lines: dict[str, str] = {}
    try:
        with in_words_of_commands():
            records = road.verify(loaded, load_model(model, external_data=True), progress=progress, input_lines=lines)
    except CommandError as error:
        made.notes.append(f"not verified: {error}")
        return made
    made.verification, made.verified_inputs = [verification.document(record) for record in records], lines
    made.notes.append("`onnx-sparse convert --report` also shows the rules that were applied")
    return made
