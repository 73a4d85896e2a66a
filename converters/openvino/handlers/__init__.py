"""The handlers: one function per operator and version, in one module per kind of operator."""

from __future__ import annotations

from onnx_sparse.converters.openvino.handlers.registry import HANDLERS, Converted, Node, find_handler
from onnx_sparse.converters.writing.registry import import_handlers, load_entry_points

import_handlers(__name__, __path__)
load_entry_points("openvino")

__all__ = ["HANDLERS", "Converted", "Node", "find_handler"]
