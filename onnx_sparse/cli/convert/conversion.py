"""What `convert` does between checking its arguments and writing the file: load, convert and verify a source."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import ascend_options, output
from onnx_sparse.cli.convert import explanation, lookup_tables

if TYPE_CHECKING:
    from onnx import ModelProto


class Conversion:
    """One conversion of a source to a model.

    Attributes:
        origin: What the source is.
        report: What its converter says about the rewriting rules.
        tables: Data of initializers that one protobuf message cannot hold; they never go into the model.
        notes: What its converter warns of.
        input_lines: What each input was taken for when inputs were made to verify.
    """

    def __init__(self, origin: str, arguments: argparse.Namespace) -> None:
        self.origin = origin
        self.report = explanation.ConversionReport()
        self.tables: dict[str, Any] = {}
        self.notes: list[str] = []
        self.input_lines: dict[str, str] = {}
        self._arguments = arguments
        self._source: Any = arguments.source

    def convert(self, progress: output.Progress) -> ModelProto:
        """The model in canonical form."""
        model = self._plain(progress)
        if self._arguments.features == "ragged":
            progress("making features ragged")
            model = self._noting(lambda: _ragged(model))
        return model

    def _plain(self, progress: output.Progress) -> ModelProto:
        """The model with the features of its source."""
        if self.origin == "onnx":
            path, self._source = self._source, _read_onnx(self._source)
            canonical = _canonical(self._source, path)
            if not self._arguments.fuse:
                return _with_checked_ids(canonical) if self._arguments.check_ids else canonical
            return self._noting(lambda: _fused(canonical, self.report, self._arguments))
        converter = _converter(self.origin)
        more: dict[str, Any] = {"explain": self.report, "check_ids": self._arguments.check_ids}
        if self.origin == "ascend":
            more |= ascend_options.values(self._arguments)
        if self.origin == "tensorflow":
            # It also warns when a model is thrown away, which is long after the converter has listened.
            logging.getLogger("tensorflow").setLevel(logging.CRITICAL)
            progress("loading")
            chosen: dict[str, Any] = {
                name: getattr(self._arguments, name) for name in ("tag", "signature", "inputs", "outputs")
            }
            chosen["lookup_tables"] = lookup_tables.read(self._arguments.lookup_table)
            chosen["custom_objects"] = _definitions(self._arguments.imports)
            # Loaded only once, for conversion and verification: models are large.
            self._source = _converted(self.origin, converter.load, self._source, **chosen)
            more["tables"] = self.tables
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

    def verify(self, plain: ModelProto, model: ModelProto, progress: output.Progress) -> Sequence[Any]:
        """Compare the source with the model in the form in which it is written."""
        progress("verifying")
        beside: dict[str, Any] = {"tables": self.tables} if self.tables else {}
        feeds = None
        if self._arguments.verify_with:
            from onnx_sparse.cli.feeds import read_feeds

            feeds = read_feeds(plain, self._arguments.verify_with)
        verify = _converter(self.origin).verify
        beside |= {"feeds": feeds, "described_by": plain, "progress": progress, "input_lines": self.input_lines}
        records: Sequence[Any] = _converted(self.origin, verify, self._source, model, **beside)
        return records


def _converter(origin: str) -> Any:
    """The converter's package, imported only when it is needed."""
    try:
        return importlib.import_module(f"onnx_sparse.converters.{origin}")
    except ImportError as error:
        raise _missing(origin, error) from error


def _definitions(modules: Sequence[str]) -> dict[str, Any]:
    """The classes and functions of modules, which are imported; the current directory is searched, too.

    Raises:
        CommandError: A module cannot be imported.
    """
    found: dict[str, Any] = {}
    sys.path.insert(0, str(Path.cwd()))
    try:
        for name in modules:
            module = importlib.import_module(name)
            own = (value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__)
            found |= {value.__name__: value for value in own if callable(value)}
    except Exception as error:  # whatever the module raises
        raise output.CommandError(f"--import {name}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return found


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
        raise output.CommandError(
            first_line,
            details={"unsupported": unsupported},
            lines=[f"{node['op_type']} {node['node']}: {node['reason']}" for node in unsupported],
        ) from error
    except ImportError as error:
        raise _missing(origin if origin in ("openvino", "torch") else "tensorflow", error) from error


def _missing(origin: str, error: ImportError) -> output.CommandError:
    return output.CommandError(
        f"this needs a package that is not installed ({error}): pip install 'onnx_sparse[{origin}]'"
    )


def _fused(model: ModelProto, report: explanation.ConversionReport, arguments: argparse.Namespace) -> ModelProto:
    import onnx_sparse

    try:
        return onnx_sparse.fuse(
            model, explain=report, repair_scatter=arguments.repair_scatter, check_ids=arguments.check_ids
        )
    except ValueError as error:
        raise output.CommandError(error) from error


def _with_checked_ids(model: ModelProto) -> ModelProto:
    from onnx_sparse.converters.onnx.fusing import with_checked_ids

    return with_checked_ids(model)


def _ragged(model: ModelProto) -> ModelProto:
    import onnx_sparse
    from onnx_sparse.schemas.features import features_of

    try:
        made = onnx_sparse.to_ragged(model)
    except ValueError as error:
        raise output.CommandError(f"--features ragged: {error}") from error
    if not any(feature.kind == "sparse" for feature in features_of(model)):
        warnings.warn("--features ragged changes nothing: the model has no sparse feature", stacklevel=2)
    return made


def _read_onnx(path: Path) -> ModelProto:
    from onnx_sparse.cli.check import refuse_domain_errors
    from onnx_sparse.cli.files.model_file import load_model

    model = load_model(path, external_data=True)
    refuse_domain_errors(model, path)
    return model


def _canonical(model: ModelProto, path: Path) -> ModelProto:
    import onnx_sparse

    try:
        return onnx_sparse.canonicalize(model)
    except Exception as error:
        raise output.CommandError(f"{path}: {error}") from error
