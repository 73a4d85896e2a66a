"""From existing ONNX files: what other exporters write for a sparse operation becomes an operator of the domain.

tf2onnx and torch's exporters write such files. `onnx_sparse.fuse` applies the rules to a model, `convert` to
a file.
"""

from __future__ import annotations

from onnx_sparse.converters.onnx.conversion import convert
from onnx_sparse.converters.onnx.phases import PHASES
from onnx_sparse.converters.onnx.verify import verify

__all__ = ["PHASES", "convert", "verify"]
