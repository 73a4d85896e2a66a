"""From existing ONNX files: what other exporters write for a sparse operation becomes an operator of the domain.

tf2onnx and torch's exporters write such files. `onnx_sparse.fuse` applies the rules to a model, `convert` to
a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.onnx.road import ROAD, Options
from onnx_sparse.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnx_sparse.converters.onnx.phases import PHASES
else:
    __getattr__ = lazy_names(__name__, {"PHASES": ".phases"})

__all__ = ["PHASES", "Options", "convert", "verify"]

convert = ROAD.convert
"""Convert an ONNX model: `Road.convert` with `Options`."""
verify = ROAD.verify
"""Run a source in ONNX Runtime and its model in ONNX Runtime on the same inputs, and compare: `Road.verify`."""
