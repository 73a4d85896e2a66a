"""From TensorFlow to ONNX with operators of the domain: SavedModels, frozen graphs, checkpoints, Keras, functions.

SavedModels, GraphDefs and checkpoints are read without TensorFlow. The `tensorflow` extra is for Keras files, models in
memory, and `verify`.
"""

from __future__ import annotations

from onnx_sparse.converters.tensorflow.conversion import convert
from onnx_sparse.converters.tensorflow.explanation import Explanation
from onnx_sparse.converters.tensorflow.handlers import HANDLERS
from onnx_sparse.converters.tensorflow.load import load
from onnx_sparse.converters.tensorflow.verify import verify
from onnx_sparse.converters.verification.comparison import Record
from onnx_sparse.converters.writing.registry import CoverageRow

__all__ = ["CoverageRow", "Explanation", "Record", "convert", "coverage", "load", "verify"]


def coverage() -> list[CoverageRow]:
    """The TensorFlow operators that are computed, sorted by name."""
    return HANDLERS.coverage()
