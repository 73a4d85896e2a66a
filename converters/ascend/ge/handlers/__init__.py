"""One handler per GE operator or family of operators. Importing this package fills the registry."""

from __future__ import annotations

from onnx_sparse.converters.ascend.ge.handlers import elementwise, fill, indexing, reduction, shaping
from onnx_sparse.converters.ascend.ge.handlers.registry import HANDLERS, Node

__all__ = ["HANDLERS", "Node", "elementwise", "fill", "indexing", "reduction", "shaping"]
