"""One handler per ATB operation. Importing this package fills the registry."""

from __future__ import annotations

from onnx_sparse.converters.ascend.atb.handlers.registry import HANDLERS, Choices, Node
from onnx_sparse.converters.writing.registry import import_handlers, load_entry_points

import_handlers(__name__, __path__)
load_entry_points("atb")

__all__ = ["HANDLERS", "Choices", "Node"]
