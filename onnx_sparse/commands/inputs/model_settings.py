"""What several commands are asked for: a model, the source that it is compared with, and rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.errors import CommandError, UsageError
from onnx_sparse.settings import FilePath, names, only_python, option

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.models.files.model_files import ModelSource

_OF_SOURCE = "of SRC, if it is a model of TensorFlow"


@dataclass(frozen=True)
class ModelSettings:
    """A model: all that `check` and `inspect` are asked for."""

    model: ModelSource = field(metadata=option("an ONNX file", "MODEL", position=True))

    @property
    def name(self) -> str:
        """The model's file, or a name for it."""
        return os.fspath(self.model) if isinstance(self.model, (str, os.PathLike)) else "the model"


@dataclass(frozen=True)
class ComparedSettings(ModelSettings):
    """A model, its source, and rows."""

    source: FilePath | None = field(default=None, metadata=option("the source of MODEL, to compare with", "SRC"))
    _: KW_ONLY
    signature: str | None = field(
        default=None,
        metadata=option("the signature of SRC, if it is a SavedModel (default: serving_default)"),
    )
    function: str | None = field(
        default=None, metadata=option("a function of SRC, if it is a SavedModel, instead of a signature")
    )
    tag: str | None = field(
        default=None, metadata=option("the graph of SRC, if it is a SavedModel with several (default: serve)")
    )
    inputs: Sequence[str] | None = field(
        default=None, metadata=option(f"the inputs {_OF_SOURCE}", "A:0,B:0", listed=True, parse=names)
    )
    outputs: Sequence[str] | None = field(
        default=None, metadata=option(f"the outputs {_OF_SOURCE}", "C:0", listed=True, parse=names)
    )
    source_options: Mapping[str, Any] | None = field(
        default=None, metadata=only_python("more options of the source's `load`, such as `custom_objects`")
    )
    rows: Sequence[str] | Mapping[str, Any] | None = field(
        default=None,
        metadata=option(
            "rows to run on, in the forms that `run` takes (default: generated)",
            "FILE.npz|NAME=FILE|NAME=JSON",
            flag="--input",
            short="-i",
        ),
    )
    progress: Callable[[str], None] | None = field(default=None, metadata=only_python("called with what is being done"))

    def tell(self, stage: str) -> None:
        """Say what is being done."""
        if self.progress is not None:
            self.progress(stage)

    def load_options(self) -> dict[str, Any]:
        """What the source's `load` is given."""
        chosen = {name: getattr(self, name) for name in ("signature", "function", "tag", "inputs", "outputs")}
        return {name: value for name, value in chosen.items() if value} | dict(self.source_options or {})

    def feeds(self, model: ModelProto) -> Mapping[str, Any] | None:
        """The rows as inputs of the model; None if they are drawn."""
        from onnx_sparse.commands.inputs.feeds import read_feeds

        if not self.rows:
            return None
        return self.rows if isinstance(self.rows, Mapping) else read_feeds(model, self.rows)

    def files(self) -> list[str | Path]:
        """What is read, as far as it is files: nothing may be written there."""
        from onnx_sparse.commands.inputs.feeds import read_files

        paths = [Path(path) for path in (self.model, self.source) if isinstance(path, (str, os.PathLike))]
        return [*paths, *(() if isinstance(self.rows, Mapping) else read_files(self.rows or ()))]

    def check_source(self) -> None:
        """Refuse a source that is not there, and options that it has not.

        Raises:
            CommandError: There is no such file or folder, or it is no source.
            UsageError: It has no such option.
        """
        from onnx_sparse.converters.errors import ConversionError, UnknownSourceError
        from onnx_sparse.converters.roads.table import road_of

        if self.source is not None and not Path(self.source).exists():
            raise CommandError(f"{self.source}: no such file or directory")
        try:
            known = {each.name for each in fields(road_of(self.source).options)} if self.source is not None else ()
        except UnknownSourceError as error:
            raise UsageError(f"--source: {error}; `onnx-sparse convert --help` lists what it can be") from error
        except ConversionError as error:
            raise CommandError(error) from error
        options = self.load_options()
        if unknown := [name for name in options if name not in known]:
            named = ", ".join(f"--{name.replace('_', '-')}" for name in unknown)
            raise UsageError(f"{named}: only a SavedModel has that")
