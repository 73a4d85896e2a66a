"""The handlers: one function per operator and version, in one module per kind of operator."""

from __future__ import annotations

from onnx_sparse.converters.openvino.handlers import (  # noqa: F401 - imported for what they register
    activation,
    arithmetic,
    class_suppression,
    color,
    constant_convert_select,
    control_flow,
    decoding,
    deformable,
    detection,
    detection_output,
    detectron,
    generated_proposals,
    indexing,
    interpolation,
    linear,
    normalization,
    pooling,
    priors,
    proposal,
    quantization,
    recurrent,
    reduction,
    roi_align,
    roi_pooling,
    rotated_boxes,
    shaping,
    slicing,
    sparse,
    spatial,
    spectral,
    strings,
)
from onnx_sparse.converters.openvino.handlers.registry import (
    HANDLERS,
    Converted,
    Node,
    find_handler,
)

__all__ = ["HANDLERS", "Converted", "Node", "find_handler"]
