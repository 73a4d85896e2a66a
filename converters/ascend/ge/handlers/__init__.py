"""One handler per GE operator or family of operators. Importing this package fills the registry."""

from __future__ import annotations

from onnx_sparse.converters.ascend.ge.handlers.registry import HANDLERS, Node, NodeAttributes
from onnx_sparse.converters.writing.registry import import_handlers, load_entry_points

import_handlers(__name__, __path__)
load_entry_points("ge")

__all__ = ["HANDLERS", "Node", "NodeAttributes"]
