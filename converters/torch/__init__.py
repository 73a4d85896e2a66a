"""From torch: nn.Module and ExportedProgram to ONNX with operators of the domain.

torch's own exporter converts the standard operators, the handlers in this package those that reduce by segment. Needs
the `torch` extra, which is imported when one of the functions is called. `convert` takes `Options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.torch.road import ROAD, Options
from onnx_sparse.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.exporting import export
    from onnx_sparse.converters.torch.source import load
    from onnx_sparse.converters.torch.translation import translation_table
    from onnx_sparse.converters.verification.comparison import Record
    from onnx_sparse.converters.writing.registry import CoverageRow
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "CoverageRow": "onnx_sparse.converters.writing.registry",
            "Record": "onnx_sparse.converters.verification.comparison",
            "export": ".exporting",
            "load": ".source",
            "translation_table": ".translation",
        },
    )

__all__ = ["CoverageRow", "Options", "Record", "convert", "coverage", "export", "load", "translation_table", "verify"]

convert = ROAD.convert
"""Convert a program of torch: `Road.convert` with `Options`."""
verify = ROAD.verify
"""Run a source in torch and its model in ONNX Runtime on the same inputs, and compare: `Road.verify`."""


def coverage() -> list[CoverageRow]:
    """The operators with a handler, sorted by name; torch's exporter converts others to standard ONNX."""
    from onnx_sparse.converters.torch.handlers import HANDLERS

    return HANDLERS.coverage()
