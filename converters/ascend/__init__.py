"""From Ascend: ATB graphs out of dumps to ONNX with operators of the domain, to run on any CPU.

Written from public sources; nothing here was compared with an NPU.
"""

from __future__ import annotations

from onnx_sparse.converters.ascend.conversion import convert
from onnx_sparse.converters.ascend.coverage import CoverageRow, coverage
from onnx_sparse.converters.ascend.model import notes

__all__ = ["CoverageRow", "convert", "coverage", "notes"]
