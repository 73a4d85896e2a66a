"""One handler per TensorFlow operator or family of operators. Importing this package fills the registry."""

from __future__ import annotations

from onnx_sparse.converters.tensorflow.handlers import embedding, fill, segment, selection, sparse
from onnx_sparse.converters.tensorflow.handlers.registry import HANDLERS, Handler

__all__ = ["HANDLERS", "Handler", "embedding", "fill", "segment", "selection", "sparse"]
