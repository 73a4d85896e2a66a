"""One handler per GE operator or family of operators. Importing this package fills the registry."""

from __future__ import annotations

from onnx_sparse.converters.ascend.ge.handlers import (
    activation,
    elementwise,
    fill,
    indexing,
    reduction,
    segments,
    shaping,
    transformers,
)
from onnx_sparse.converters.ascend.ge.handlers.registry import HANDLERS, Node

__all__ = [
    "HANDLERS",
    "Node",
    "activation",
    "elementwise",
    "fill",
    "indexing",
    "reduction",
    "segments",
    "shaping",
    "transformers",
]
