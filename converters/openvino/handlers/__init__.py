"""The handlers: one function per operator and version, in one module per kind of operator."""

from __future__ import annotations

from onnx_sparse.converters.openvino.handlers import (
    activation,
    arithmetic,
    control_flow,
    detection,
    indexing,
    interpolation,
    linear,
    normalization,
    plumbing,
    pooling,
    recurrent,
    reduction,
    shaping,
    slicing,
    sparse,
)
from onnx_sparse.converters.openvino.handlers.registry import (
    HANDLERS,
    Converted,
    Handler,
    Node,
    converts,
    find_handler,
)

#: The modules whose import registers the handlers.
MODULES = (
    plumbing,
    arithmetic,
    activation,
    reduction,
    linear,
    pooling,
    normalization,
    shaping,
    slicing,
    indexing,
    interpolation,
    detection,
    recurrent,
    control_flow,
    sparse,
)

__all__ = ["HANDLERS", "MODULES", "Converted", "Handler", "Node", "converts", "find_handler"]
