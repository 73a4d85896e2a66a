"""The handlers: one function per operator, in one module per kind of operator."""

from __future__ import annotations

from onnx_sparse.converters.torch.handlers.registry import HANDLERS, Arguments, Node, TorchHandler
from onnx_sparse.converters.writing.registry import import_handlers, load_entry_points

import_handlers(__name__, __path__)
load_entry_points("torch")

__all__ = ["HANDLERS", "Arguments", "Node", "TorchHandler"]
