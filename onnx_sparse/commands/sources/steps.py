"""What `convert` does between checking its arguments and writing the file: load, convert and verify a source."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands import Progress
from onnx_sparse.commands.sources import explanation
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.roads.road import AnyRoad
from onnx_sparse.errors import CommandError
from onnx_sparse.installation import install_command

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.converters.verification.comparison import Record


class Conversion:
    """One conversion of a source to a model.

    Attributes:
        road: The road of the source.
        loaded: The source as its road has read it: once, for conversion and verification.
        report: What its converter says about the rewriting rules.
        notes: What its converter warns of.
        input_lines: What each input was taken for when inputs were made to verify.
    """

    def __init__(
        self,
        road: AnyRoad,
        source: Any,
        options: Mapping[str, Any],
        *,
        check_ids: bool = False,
        features: str | None = None,
    ) -> None:
        self.road = road
        self.report = explanation.ConversionReport()
        self.notes: list[str] = []
        self.input_lines: dict[str, str] = {}
        self.loaded: Any = None
        self._source, self._options = source, road.choose(options)
        self._check_ids, self._features = check_ids, features

    def convert(self, progress: Progress) -> ModelProto:
        """The model in canonical form."""
        for name in self.road.loggers:  # they also warn when a model is thrown away, long after it was converted
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self.loaded = loaded_source(self.road, self._source, self._options, progress)
        with in_words_of_commands(self.road.extra):
            model = self._noting(
                lambda: self.road.convert_loaded(
                    self.loaded, self._options, check_ids=self._check_ids, tell=progress, explain=self.report
                )
            )
        self.notes += self.road.notes(model)
        if self._features == "ragged":
            progress("making features ragged")
            model = self._noting(lambda: _ragged(model))
        return model

    def _noting(self, step: Callable[[], ModelProto]) -> ModelProto:
        """What a step returns; what it warns of becomes notes."""
        with warnings.catch_warnings(record=True) as caught:
            model = step()
        said = (str(warning.message).partition("\n")[0] for warning in caught if warning.category is UserWarning)
        self.notes += dict.fromkeys(said)
        return model

    def verify(
        self,
        plain: ModelProto,
        model: ModelProto,
        progress: Progress,
        feeds: Mapping[str, Any] | None = None,
        **bounds: Any,
    ) -> Sequence[Record]:
        """Compare the source with the model in the form in which it is written, on given or generated inputs.

        Args:
            bounds: `atol`, `rtol` and `max_different` of `Road.verify`.
        """
        progress("verifying")
        with in_words_of_commands(self.road.extra):
            return self.road.verify(
                self.loaded,
                model,
                feeds=feeds,
                described_by=plain,
                progress=progress,
                input_lines=self.input_lines,
                **bounds,
            )


def loaded_source(road: AnyRoad, source: Any, options: Any, progress: Progress) -> Any:
    """A source as its road reads it.

    Raises:
        CommandError: It cannot be read.
    """
    from onnx_sparse.commands.description.findings import refuse_domain_errors

    with in_words_of_commands(road.extra):
        loaded = road.load(source, options, progress)
    if (model := road.as_onnx(loaded)) is not None:
        refuse_domain_errors(model, source if isinstance(source, Path) else Path("the model"))
    return loaded


@contextmanager
def in_words_of_commands(extra: str = "") -> Iterator[None]:
    """Raise what a converter raises as a CommandError that lists every unsupported node.

    Args:
        extra: The extra that a missing package may belong to.
    """
    try:
        yield
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
        hint = f": {install_command(extra)}" if extra else ""
        raise CommandError(f"this needs a package that is not installed ({error}){hint}") from error


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
