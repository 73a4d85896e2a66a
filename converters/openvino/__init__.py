"""From OpenVINO: IRs of versions 10 and 11 to ONNX with operators of the domain.

Reads the .xml and .bin files itself. Only `verify` and `extensions` need the `openvino` package, which they import
when called.
"""

from __future__ import annotations

from onnx_sparse.converters.openvino.conversion import convert
from onnx_sparse.converters.openvino.coverage import CoverageRow, coverage
from onnx_sparse.converters.openvino.extensions import extensions
from onnx_sparse.converters.openvino.verify import verify

__all__ = ["CoverageRow", "convert", "coverage", "extensions", "verify"]
