"""What `convert` does between checking its arguments and writing the file: load, convert and verify a source."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands import Progress, explanation
from onnx_sparse.errors import CommandError
from onnx_sparse.installation import install_command

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Options:
    """What a conversion is asked for.

    Attributes:
        fuse: Whether standard nodes of an ONNX file become operators of the domain.
        repair_scatter: What scatters become that lose rows.
        check_ids: Whether all lookups refuse negative ids.
        features: `ragged` to make sparse features ragged.
        of_source: The options of the source's own `load`, or else `convert`.
    """

    fuse: bool = False
    repair_scatter: Sequence[str] = ()
    check_ids: bool = False
    features: str | None = None
    of_source: Mapping[str, Any] = field(default_factory=dict)


class Conversion:
    """One conversion of a source to a model.

    Attributes:
        origin: What the source is.
        report: What its converter says about the rewriting rules.
        notes: What its converter warns of.
        input_lines: What each input was taken for when inputs were made to verify.
    """

    def __init__(self, origin: str, source: Any, options: Options) -> None:
        self.origin = origin
        self.report = explanation.ConversionReport()
        self.notes: list[str] = []
        self.input_lines: dict[str, str] = {}
        self._options = options
        self._source: Any = source

    def convert(self, progress: Progress) -> ModelProto:
        """The model in canonical form."""
        model = self._plain(progress)
        if self._options.features == "ragged":
            progress("making features ragged")
            model = self._noting(lambda: _ragged(model))
        return model

    def _plain(self, progress: Progress) -> ModelProto:
        """The model with the features of its source."""
        if self.origin == "onnx":
            given, self._source = self._source, _read_onnx(self._source)
            canonical = _canonical(self._source, given)
            if not self._options.fuse:
                return _with_checked_ids(canonical) if self._options.check_ids else canonical
            return self._noting(lambda: _fused(canonical, self.report, self._options))
        converter = _converter(self.origin)
        more: dict[str, Any] = {"explain": self.report, "check_ids": self._options.check_ids}
        if self.origin == "tensorflow":
            # It also warns when a model is thrown away, which is long after the converter has listened.
            logging.getLogger("tensorflow").setLevel(logging.CRITICAL)
            progress("loading")
            # Loaded only once, for conversion and verification: models are large.
            self._source = _converted(self.origin, converter.load, self._source, **self._options.of_source)
        else:
            more |= self._options.of_source
        if self.origin == "torch":
            progress("loading")
            self._source = _converted(self.origin, converter.load, self._source)
        model = self._noting(
            lambda: _converted(self.origin, converter.convert, self._source, progress=progress, **more)
        )
        if self.origin == "ascend":
            self.notes += converter.notes(model)
        return model

    def _noting(self, step: Callable[[], ModelProto]) -> ModelProto:
        """What a step returns; what it warns of becomes notes."""
        with warnings.catch_warnings(record=True) as caught:
            model = step()
        said = (str(warning.message).partition("\n")[0] for warning in caught if warning.category is UserWarning)
        self.notes += dict.fromkeys(said)
        return model

    @property
    def load_options(self) -> tuple[dict[str, Any], bool]:
        """What loads the source once more in another process, and whether it can be loaded there."""
        if self.origin != "tensorflow":
            return {}, True
        given = {name: value for name, value in self._options.of_source.items() if value}
        return given, not given.pop("custom_objects", None)

    @property
    def loaded(self) -> Any:
        """The source as its converter has read it."""
        return self._source

    def verify(
        self,
        plain: ModelProto,
        model: ModelProto,
        progress: Progress,
        feeds: Mapping[str, Any] | None = None,
    ) -> Sequence[Any]:
        """Compare the source with the model in the form in which it is written, on given or generated inputs."""
        progress("verifying")
        verify = _converter(self.origin).verify
        more = {"feeds": feeds, "described_by": plain, "progress": progress, "input_lines": self.input_lines}
        records: Sequence[Any] = _converted(self.origin, verify, self._source, model, **more)
        return records


def loaded_source(origin: str, path: Path, options: Mapping[str, Any]) -> Any:
    """A source as its converter reads it; the path itself of one that has no such form.

    Raises:
        CommandError: It cannot be read.
    """
    if origin == "onnx":
        return _read_onnx(path)
    if origin not in ("tensorflow", "torch"):
        return path
    return _converted(origin, _converter(origin).load, path, **options)


def verified(
    origin: str, source: Any, model: ModelProto, progress: Progress, input_lines: dict[str, str]
) -> Sequence[Any]:
    """Compare a source, as `loaded_source` returned it, with a model that was converted from it.

    Raises:
        CommandError: The source has no verification, or cannot be run.
    """
    verify = getattr(_converter(origin), "verify", None)
    if verify is None:
        raise CommandError(f"there is no program to run a model of {origin} with")
    records: Sequence[Any] = _converted(origin, verify, source, model, progress=progress, input_lines=input_lines)
    return records


def _converter(origin: str) -> Any:
    """The converter's package, imported only when it is needed."""
    try:
        return importlib.import_module(f"onnx_sparse.converters.{origin}")
    except ImportError as error:
        raise _missing(origin, error) from error


def _converted(origin: str, step: Any, *positional: Any, **named: Any) -> Any:
    """The result of one step of a converter.

    Raises:
        CommandError: It failed; every unsupported node is listed.
    """
    from onnx_sparse.converters import ConversionError

    try:
        return step(*positional, **named)
    except ConversionError as error:
        unsupported = [
            {"node": node.node, "op_type": node.op_type, "reason": node.reason} for node in error.unsupported
        ]
        first_line = str(error).partition("\n")[0] if unsupported else str(error)
        raise CommandError(
            first_line,
            details={"unsupported": unsupported},
            lines=[f"{node['op_type']} {node['node']}: {node['reason']}" for node in unsupported],
        ) from error
    except ImportError as error:
        raise _missing(origin if origin in ("openvino", "torch") else "tensorflow", error) from error


def _missing(origin: str, error: ImportError) -> CommandError:
    return CommandError(f"this needs a package that is not installed ({error}): {install_command(origin)}")


def _fused(model: ModelProto, report: explanation.ConversionReport, options: Options) -> ModelProto:
    from onnx_sparse.converters.onnx.fusing import fuse

    try:
        return fuse(model, explain=report, repair_scatter=options.repair_scatter, check_ids=options.check_ids)
    except ValueError as error:
        raise CommandError(error) from error


def _with_checked_ids(model: ModelProto) -> ModelProto:
    from onnx_sparse.converters.onnx.fusing import with_checked_ids

    return with_checked_ids(model)


def _ragged(model: ModelProto) -> ModelProto:
    from onnx_sparse.converters.ragged.inputs import to_ragged
    from onnx_sparse.schemas.features import features_of

    try:
        made = to_ragged(model)
    except ValueError as error:
        raise CommandError(f"--features ragged: {error}") from error
    if not any(feature.kind == "sparse" for feature in features_of(model)):
        warnings.warn("--features ragged changes nothing: the model has no sparse feature", stacklevel=2)
    return made


def _read_onnx(source: Any) -> ModelProto:
    """The model of a file, or one in memory."""
    from onnx_sparse.commands.findings import refuse_domain_errors
    from onnx_sparse.models.load_and_save import load_model
    from onnx_sparse.models.model_files import model_of

    model = load_model(source, external_data=True) if isinstance(source, Path) else model_of(source)
    refuse_domain_errors(model, source if isinstance(source, Path) else Path("the model"))
    return model


def _canonical(model: ModelProto, source: Any) -> ModelProto:
    from onnx_sparse.models.canonical import canonicalize

    try:
        return canonicalize(model)
    except Exception as error:
        raise CommandError(f"{source if isinstance(source, Path) else 'the model'}: {error}") from error
