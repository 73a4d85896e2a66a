"""From torch: nn.Module and ExportedProgram to ONNX with operators of the domain.

torch's own exporter converts the standard operators, the handlers in this package those that reduce by segment. Needs
the `torch` extra, which is imported when one of the functions is called.
"""

from __future__ import annotations

from onnx_sparse.converters.torch.conversion import convert, export
from onnx_sparse.converters.torch.handlers import HANDLERS
from onnx_sparse.converters.torch.source import load
from onnx_sparse.converters.torch.translation import translation_table
from onnx_sparse.converters.torch.verify import verify
from onnx_sparse.converters.verification.comparison import Record
from onnx_sparse.converters.writing.registry import CoverageRow

__all__ = ["CoverageRow", "Record", "convert", "coverage", "export", "load", "translation_table", "verify"]


def coverage() -> list[CoverageRow]:
    """The operators with a handler, sorted by name; torch's exporter converts others to standard ONNX."""
    return HANDLERS.coverage()
