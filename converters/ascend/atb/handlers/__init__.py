"""One handler per ATB operation. Importing this package fills the registry."""

from __future__ import annotations

from onnx_sparse.converters.ascend.atb.handlers.registry import HANDLERS, Choices, Node
from onnx_sparse.converters.writing.registry import import_handlers

import_handlers(__name__, __path__)

__all__ = ["HANDLERS", "Choices", "Node"]
