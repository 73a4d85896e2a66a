"""From TensorFlow to ONNX with operators of the domain: SavedModels, frozen graphs, checkpoints, Keras, functions.

SavedModels, GraphDefs and checkpoints are read without TensorFlow. The `tensorflow` extra is for Keras files, models in
memory, and `verify`. `convert` and `verify` take `Options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.tensorflow.road import ROAD, Options
from onnx_sparse.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnx_sparse.converters.tensorflow.explanation import Explanation
    from onnx_sparse.converters.tensorflow.loading import load
    from onnx_sparse.converters.verification.comparison import Record
    from onnx_sparse.converters.writing.registry import CoverageRow
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "CoverageRow": "onnx_sparse.converters.writing.registry",
            "Explanation": ".explanation",
            "Record": "onnx_sparse.converters.verification.comparison",
            "load": ".loading",
        },
    )

__all__ = ["CoverageRow", "Explanation", "Options", "Record", "convert", "coverage", "load", "verify"]

convert = ROAD.convert
"""Convert a TensorFlow model: `Road.convert` with `Options`."""
verify = ROAD.verify
"""Run a source in TensorFlow and its model in ONNX Runtime on the same inputs, and compare: `Road.verify`."""


def coverage() -> list[CoverageRow]:
    """The TensorFlow operators that are computed, sorted by name."""
    from onnx_sparse.converters.tensorflow.handlers import HANDLERS

    return HANDLERS.coverage()
