"""The road from ONNX files."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.roads.road import Progress, Road, Run
from onnx_sparse.errors import CommandError, UsageError
from onnx_sparse.models.files.suffixes import ONNX_SUFFIXES
from onnx_sparse.settings import option

if TYPE_CHECKING:
    from onnx_sparse.converters.pipeline import Draft, Pass, Rewriting
    from onnx_sparse.converters.tensor import Array
    from onnx_sparse.converters.verification.reference import Reference

#: The suffixes of files with external data, as exporters write them.
_DATA_SUFFIXES = (".data", ".onnx_data", ".weights", ".bin")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a conversion from ONNX."""

    GROUP: ClassVar = "options for ONNX files"
    EXAMPLES: ClassVar = """
onnx-sparse convert tf2onnx.onnx -o fused.onnx --fuse --explain --verify
onnx-sparse convert torch.onnx -o repaired.onnx --fuse --repair-scatter add
"""

    fuse: bool = field(
        default=False,
        metadata=option(
            "replace patterns of standard nodes in an ONNX file of tf2onnx or torch by our operators, with the same "
            "answers"
        ),
    )
    repair_scatter: str | Sequence[str] = field(
        default=(),
        metadata=option(
            "with --fuse: repair scatters that keep only the last of rows with equal ids, although their source adds "
            "or averages the rows. The reduction is add, mean, mul, max or min. Without this option, a note names each",
            "REDUCTION|NODE=REDUCTION",
        ),
    )


@dataclass(frozen=True)
class OnnxModel:
    """A model that has been read.

    Attributes:
        model: The model.
        name: Its name in messages.
        is_file: Whether it was read from a file.
    """

    model: ModelProto
    name: str
    is_file: bool


class _Onnx(Road[Options, OnnxModel]):
    """ONNX files, whose external data are read, too; in memory a ModelProto, its bytes, or an `onnx_ir.Model`."""

    name = "onnx"
    title = "ONNX"
    models = "ONNX files"
    program = "the ONNX file"
    suffixes = ONNX_SUFFIXES
    packages = ("onnx", "onnx_ir")
    converts_in_place = True
    options = Options
    usual = MappingProxyType({"fuse": True})
    needs = "onnxruntime"

    def check(self, options: Options, *, explain: bool, verify: bool) -> None:
        if options.fuse:
            if options.repair_scatter and verify:
                raise UsageError("--repair-scatter changes the answers, so that --verify cannot compare with the file")
            return
        if explain:
            raise UsageError("--explain of an ONNX file is for --fuse")
        if options.repair_scatter:
            raise UsageError("--repair-scatter is for --fuse")

    def refuse(self, path: Path) -> None:
        if path.suffix.lower() not in _DATA_SUFFIXES:
            return
        for model in (path.with_suffix(""), path.with_suffix(".onnx")):  # m.onnx.data or m.data, of m.onnx
            if model.suffix == ".onnx" and model.is_file():
                raise ConversionError(f"{path} has the external data of a model; give its graph, {model}")

    def takes(self, kind: type) -> bool:
        return kind in (bytes, bytearray) or super().takes(kind)

    def load(self, source: Any, options: Options, tell: Progress = lambda stage: None) -> OnnxModel:
        from onnx_sparse.models.files.load_and_save import load_model
        from onnx_sparse.models.files.model_files import model_of

        if isinstance(source, OnnxModel):
            return source
        tell("loading")
        try:
            if isinstance(source, str | Path):
                return OnnxModel(load_model(Path(source), external_data=True), str(source), is_file=True)
            return OnnxModel(model_of(source), "the model", is_file=False)
        except (CommandError, OSError, ValueError) as error:
            raise ConversionError(str(error)) from error

    def as_onnx(self, loaded: OnnxModel) -> ModelProto:
        return loaded.model

    def draft(self, loaded: OnnxModel, options: Options, tell: Progress) -> Draft:
        """The model in canonical form."""
        from onnx_sparse.converters.pipeline import Draft
        from onnx_sparse.models.forms.canonical import canonicalize

        tell("converting")
        try:
            return Draft(canonicalize(loaded.model))
        except Exception as error:  # whatever onnx's tools raise
            raise ConversionError(f"{loaded.name}: {error}") from error

    def passes(self, *, check_ids: bool = False) -> Sequence[Pass]:
        from onnx_sparse.converters.onnx.fusing import passes

        return passes(check_ids=check_ids)

    def convert_loaded(
        self,
        loaded: OnnxModel,
        options: Options,
        *,
        check_ids: bool = False,
        tell: Progress = lambda stage: None,
        explain: Callable[[Rewriting], None] | None = None,
        tables: MutableMapping[str, Array] | None = None,
    ) -> ModelProto:
        """The passes are those of `fuse`, which takes large tensors out of the model first."""
        from onnx_sparse.converters.onnx.fusing import fuse, with_checked_ids

        model = self.draft(loaded, options, tell).model
        if not options.fuse:
            return with_checked_ids(model) if check_ids else model
        try:
            return fuse(model, explain=explain, repair_scatter=options.repair_scatter, check_ids=check_ids)
        except ValueError as error:
            raise ConversionError(str(error)) from error

    def keeps_files(self, loaded: OnnxModel, model: ModelProto) -> bool:
        from onnx_sparse.models.files.large_models import LARGE, whole_size

        return not loaded.is_file or whole_size(model) >= LARGE

    def reference(
        self, loaded: OnnxModel, model: ModelProto, *, described: ModelProto, generated: bool
    ) -> AbstractContextManager[Reference]:
        from onnx_sparse.converters.onnx.reference import reference

        return reference(loaded.model, model)

    def timed(self, path: str, options: Options, threads: int, names: Sequence[str]) -> tuple[list[str], Run]:
        from onnx_sparse.sessions.quiet import quiet_session

        session = quiet_session(path, threads)
        return [value.name for value in session.get_inputs()], lambda feeds: session.run(None, dict(feeds))


ROAD = _Onnx()
