"""From OpenVINO: IRs of versions 10 and 11 to ONNX with operators of the domain.

Reads the .xml and .bin files itself. Only `verify` and `extensions` need the `openvino` package, which they import
when called.
"""

from __future__ import annotations

from onnx_sparse.converters.openvino.conversion import convert
from onnx_sparse.converters.openvino.extensions import extensions
from onnx_sparse.converters.openvino.handlers import HANDLERS
from onnx_sparse.converters.openvino.verify import verify
from onnx_sparse.converters.writing.registry import CoverageRow

__all__ = ["CoverageRow", "convert", "coverage", "extensions", "verify"]


def coverage() -> list[CoverageRow]:
    """The operators with a handler, sorted by name and version."""
    return HANDLERS.coverage()
