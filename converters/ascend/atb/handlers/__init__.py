"""One handler per ATB operation. Importing this package fills the registry."""

from __future__ import annotations

from onnx_sparse.converters.ascend.atb.handlers import (
    activation,
    caches,
    communication,
    elewise,
    experts,
    fill,
    indexing,
    layouts,
    linear,
    normalization,
    paged_attention,
    reduction,
    rotary,
    self_attention,
    sequences,
    shaping,
)
from onnx_sparse.converters.ascend.atb.handlers.registry import HANDLERS, Choices, Node

__all__ = [
    "HANDLERS",
    "Choices",
    "Node",
    "activation",
    "caches",
    "communication",
    "elewise",
    "experts",
    "fill",
    "indexing",
    "layouts",
    "linear",
    "normalization",
    "paged_attention",
    "reduction",
    "rotary",
    "self_attention",
    "sequences",
    "shaping",
]
