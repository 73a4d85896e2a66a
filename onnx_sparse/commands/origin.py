"""What a report says of the source of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands import Progress
from onnx_sparse.errors import CommandError

if TYPE_CHECKING:
    from onnx_sparse.reports.pictures import Picture

#: The package that runs each source.
PACKAGES = {"tensorflow": "tensorflow", "torch": "torch", "openvino": "openvino", "onnx": "onnxruntime"}


@dataclass
class Origin:
    """What is known of the source of a model.

    Attributes:
        source: Its file or folder.
        origin: What it is, `tensorflow`.
        picture: Its graph; None if it cannot be drawn.
        rules: The rules that were applied to it.
        verification: How far the answers of both are apart; None if that was not tried.
        verified_inputs: What inputs were taken for.
        notes: What the converter warned of, and what could not be done.
        options: What the source's `load` is given: a `signature`, for example.
        is_timed: Whether the source can be loaded once more, to be timed.
    """

    source: Path
    origin: str
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

    name = {"tensorflow": "TensorFlow", "openvino": "OpenVINO", "onnx": "ONNX"}.get(made.origin, made.origin)
    picture = source_picture(made.origin, loaded, f"Before: {made.source.name} ({name})")
    if picture is None:
        made.notes.append(f"no picture of {made.source.name}: a graph of {name} of its size or kind is not drawn")
    return picture


def is_there(origin: str) -> bool:
    """Whether the package that runs a source is installed."""
    package = PACKAGES.get(origin)
    return package is not None and find_spec(package) is not None


def with_source(model: Path, source: Path, options: Mapping[str, Any], progress: Progress) -> Origin:
    """What is known of a source without another conversion: its picture, and a verification.

    Raises:
        CommandError: It cannot be read.
    """
    from onnx_sparse.commands import verification
    from onnx_sparse.commands.conversion import loaded_source, verified
    from onnx_sparse.converters.errors import ConversionError
    from onnx_sparse.converters.roads.table import road_of
    from onnx_sparse.models.load_and_save import load_model

    try:
        made = Origin(source, road_of(source).name, options=options)
    except ConversionError as error:
        raise CommandError(error) from error
    progress(f"reading {source}")
    loaded = loaded_source(made.origin, source, options)
    made.picture = picture_of_source(made, loaded)
    if not is_there(made.origin):
        package = PACKAGES.get(made.origin)
        why = f"{package} is not installed" if package else f"no program here runs models of the source {made.origin}"
        made.notes.append(f"not verified: {why}")
        return made
    progress("verifying")
    lines: dict[str, str] = {}
    try:
        records = verified(made.origin, loaded, load_model(model, external_data=True), progress, lines)
    except CommandError as error:
        made.notes.append(f"not verified: {error}")
        return made
    made.verification, made.verified_inputs = [verification.document(record) for record in records], lines
    made.notes.append("`onnx-sparse convert --report` also shows the rules that were applied")
    return made
