"""From TensorFlow: SavedModel, frozen GraphDef, Keras 3 and tf.function to ONNX with operators of the domain.

tf2onnx converts the standard operators, the handlers in this package convert the sparse ones. Needs the `tensorflow`
extra, which is imported when `convert` or `load` is called.
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
    """The TensorFlow operators with a handler, sorted by name; tf2onnx converts others to standard ONNX."""
    return HANDLERS.coverage()
