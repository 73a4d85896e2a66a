"""One handler per ATB operation. Importing this package fills the registry."""

from __future__ import annotations

from onnx_sparse.converters.ascend.atb.handlers import (
    activation,
    attention,
    elewise,
    fill,
    indexing,
    linear,
    normalization,
    reduction,
    shaping,
)
from onnx_sparse.converters.ascend.atb.handlers.registry import HANDLERS, Choices, Node

__all__ = [
    "HANDLERS",
    "Choices",
    "Node",
    "activation",
    "attention",
    "elewise",
    "fill",
    "indexing",
    "linear",
    "normalization",
    "reduction",
    "shaping",
]
