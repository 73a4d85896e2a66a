"""Sparse, segment and embedding operators for ONNX: schemas, kernels for ONNX Runtime, converters.

Importing this package registers the operators' schemas with onnx and does nothing else; modules that need ONNX Runtime
are imported when they are first used.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

try:
    from onnx_sparse import schemas
except ImportError as error:
    if Path(__file__).with_name("schemas").is_file():
        raise ImportError(
            "onnx_sparse/schemas is a text file where the repository has a symbolic link: it comes from a checkout "
            "without symbolic links. Install it: `pip install -e .` needs none. Or run `git config core.symlinks true` "
            "there and check out again (Windows allows symbolic links in its developer mode)"
        ) from error
    raise
from onnx_sparse.schemas import DOMAIN, OPS, OPSET_VERSION
from onnx_sparse.schemas.validation import KernelError
from onnx_sparse.version import __version__ as __version__

if TYPE_CHECKING:
    from onnx_sparse.benchmarking.benchmark import Benchmark
    from onnx_sparse.commands.conversion.convert import Conversion, convert
    from onnx_sparse.commands.conversion.save import save
    from onnx_sparse.commands.description.check import Check, check
    from onnx_sparse.commands.description.inspect import Inspection, inspect
    from onnx_sparse.commands.reports.benchmark import benchmark
    from onnx_sparse.commands.reports.report import report
    from onnx_sparse.commands.scoring.score import Scored, score
    from onnx_sparse.commands.tables.shard import Sharded, shard
    from onnx_sparse.commands.tables.tables import Tables, tables
    from onnx_sparse.converters.onnx.fusing import fuse
    from onnx_sparse.converters.ragged.inputs import to_ragged
    from onnx_sparse.models.files.large_models import load
    from onnx_sparse.models.forms.canonical import canonicalize
    from onnx_sparse.models.forms.function_bodies import embed_functions, lower
    from onnx_sparse.models.tables.quantization import quantize_tables
    from onnx_sparse.models.tools.evaluator import reference_ops
    from onnx_sparse.reports.report import Report
    from onnx_sparse.rows.example_arrays import example_array
    from onnx_sparse.rows.model_features import Features, features
    from onnx_sparse.sessions.runtime import InferenceSession, get_library_path, register, session_options
    from onnx_sparse.sessions.stateful import StatefulSession

__all__ = [
    "DOMAIN",
    "OPSET_VERSION",
    "Benchmark",
    "Check",
    "Conversion",
    "Features",
    "InferenceSession",
    "Inspection",
    "KernelError",
    "Report",
    "Scored",
    "Sharded",
    "StatefulSession",
    "Tables",
    "benchmark",
    "canonicalize",
    "check",
    "convert",
    "embed_functions",
    "example_array",
    "features",
    "fuse",
    "get_library_path",
    "inspect",
    "load",
    "lower",
    "quantize_tables",
    "reference_ops",
    "register",
    "report",
    "save",
    "score",
    "session_options",
    "shard",
    "tables",
    "to_ragged",
]

_HOMES = {
    "Benchmark": "benchmarking.benchmark",
    "Check": "commands.description.check",
    "Conversion": "commands.conversion.convert",
    "Features": "rows.model_features",
    "InferenceSession": "sessions.runtime",
    "Inspection": "commands.description.inspect",
    "Report": "reports.report",
    "Scored": "commands.scoring.score",
    "Sharded": "commands.tables.shard",
    "StatefulSession": "sessions.stateful",
    "Tables": "commands.tables.tables",
    "benchmark": "commands.reports.benchmark",
    "canonicalize": "models.forms.canonical",
    "check": "commands.description.check",
    "convert": "commands.conversion.convert",
    "embed_functions": "models.forms.function_bodies",
    "example_array": "rows.example_arrays",
    "features": "rows.model_features",
    "fuse": "converters.onnx.fusing",
    "get_library_path": "sessions.runtime",
    "inspect": "commands.description.inspect",
    "load": "models.files.large_models",
    "lower": "models.forms.function_bodies",
    "quantize_tables": "models.tables.quantization",
    "reference_ops": "models.tools.evaluator",
    "register": "sessions.runtime",
    "report": "commands.reports.report",
    "save": "commands.conversion.save",
    "score": "commands.scoring.score",
    "session_options": "sessions.runtime",
    "shard": "commands.tables.shard",
    "tables": "commands.tables.tables",
    "to_ragged": "converters.ragged.inputs",
}

#: Modules of the public interface that are imported when they are first used.
_MODULES = ("arrow", "batching", "converters", "ray")

schemas.register(tuple(OPS.values()))

if not TYPE_CHECKING:  # type checkers know the names from the imports above; to them, any other name is an error

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"onnx_sparse.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"onnx_sparse.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
