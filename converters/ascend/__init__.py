"""From Ascend: ATB graphs from dumps, GE graphs and torch_npu's ONNX files to ONNX that runs on any CPU.

Written from public sources; nothing here has been compared with an NPU.
"""

from __future__ import annotations

from onnx_sparse.converters.ascend.conversion import convert
from onnx_sparse.converters.ascend.coverage import CoverageRow, coverage
from onnx_sparse.converters.ascend.model import notes

__all__ = ["CoverageRow", "convert", "coverage", "notes"]
