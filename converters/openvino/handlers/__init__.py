"""The handlers: one function per operator and version, in one module per kind of operator."""

from __future__ import annotations

from onnx_sparse.converters.openvino.handlers import (
    activation,
    arithmetic,
    constant_convert_select,
    control_flow,
    detection,
    indexing,
    interpolation,
    linear,
    normalization,
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
    constant_convert_select,
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
