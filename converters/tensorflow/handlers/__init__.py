"""One handler per TensorFlow operator or family of operators. Importing this package fills the registry."""

from __future__ import annotations

from onnx_sparse.converters.tensorflow.handlers.registry import HANDLERS, Handler
from onnx_sparse.converters.writing.registry import import_handlers, load_entry_points

import_handlers(__name__, __path__)
load_entry_points("tensorflow")

__all__ = ["HANDLERS", "Handler"]
