"""The handlers: one function per operator, in one module per kind of operator."""

from __future__ import annotations

from onnx_sparse.converters.torch.handlers import (  # noqa: F401 - imported for what they register
    counting,
    distances,
    division,
    embedding_bag,
    indexing,
    jagged,
    logarithms,
    masking,
    ordering,
    scatter,
    segment,
)
from onnx_sparse.converters.torch.handlers.registry import HANDLERS, Node, TorchHandler

__all__ = ["HANDLERS", "Node", "TorchHandler"]
