"""Operators of detectors: the choice of boxes, and the sampling of images by grids."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.onnxruntime.sampling import unless_finite
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


@handles("NonMaxSuppression-5", "NonMaxSuppression-9", to="NonMaxSuppression, TopK", notes="soft_nms_sigma must be 0.")
def non_max_suppression(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """NonMaxSuppression-5 and NonMaxSuppression-9: (boxes, scores, most per class, IoU, score, sigma).

    Returns the chosen boxes as (batch, class, box), the same with scores for boxes, and their number. With
    `sort_result_descending` the best come first, whatever their batch and class.
    """
    boxes, scores = (emit.cast(node[k], TensorProto.FLOAT) for k in (0, 1))
    if (sigma := node.optional(5)) is not None and sigma.constant("soft_nms_sigma").any():
        raise Unsupported("soft_nms_sigma other than 0")
    most = emit.int64(_number(node, emit, 2))
    overlap, least = (emit.cast(_number(node, emit, k), TensorProto.FLOAT) for k in (3, 4))
    # OpenVINO drops boxes at the threshold, ONNX only above it; at 0 OpenVINO drops every box but the first.
    if overlap.value is None:
        is_none, one = emit.op("LessOrEqual", overlap, emit.like(0, overlap)), emit.constant(1)
        most = emit.op("Where", is_none, emit.op("Min", most, one), most)
        below = emit.like(np.nextafter(np.float32(1), np.float32(0)), overlap)  # the product is the next lower number
        beyond = emit.op("Mul", emit.op("Max", overlap, emit.like(0, overlap)), below)
        # ONNX takes none above 1, at which nothing is dropped.
        is_above = emit.op("Greater", overlap, emit.like(1, overlap))
        overlap = emit.op("Where", is_above, emit.like(1, overlap), beyond)
    elif (limit := overlap.constant("the threshold")) <= 0:
        most = emit.op("Min", most, emit.constant(1))
    elif limit > 1:
        overlap = emit.like(1, overlap)
    else:
        overlap = emit.constant(np.nextafter(limit, np.float32(0)), TensorProto.FLOAT)
    centers = node.choice("box_encoding", ("corner", "center"), "corner") == "center"
    (chosen,) = emit.node("NonMaxSuppression", [boxes, scores, most, overlap, least], [TensorProto.INT64],
                          center_point_box=int(centers))  # fmt: skip
    found = emit.op("GatherND", scores, chosen)
    count = emit.shape_of(chosen, 0, 1)
    if node.flag("sort_result_descending", True):
        found, order = emit.node("TopK", [found, count], [TensorProto.FLOAT, TensorProto.INT64], axis=0)
        chosen = emit.op("Gather", chosen, order, axis=0)
    places = emit.op("Slice", chosen, *(emit.constant([k]) for k in (0, 2, 1)))
    column = emit.op("Unsqueeze", found, emit.constant([1]))
    return chosen, emit.op("Concat", emit.cast(places, TensorProto.FLOAT), column, axis=1), count


@handles("NonMaxSuppression-1", "NonMaxSuppression-3", "NonMaxSuppression-4", to="NonMaxSuppression, TopK")
def non_max_suppression_indices(node: Node, emit: Emitter) -> Tensor:
    """The versions before 5: the chosen boxes as (batch, class, box), as many as there are.

    Their specifications say -1 up to the declared size; OpenVINO gives what version 5 gives.
    """
    return non_max_suppression(node, emit)[0]


def _number(node: Node, emit: Emitter, position: int) -> Tensor:
    given = node.optional(position)
    return emit.constant(0) if given is None else emit.scalar(given)


@handles("GridSample-9", to="GridSample")
def grid_sample(node: Node, emit: Emitter) -> Tensor:
    """GridSample-9. Between pixels, a place that is not finite gives NaN; else NaN is beyond the last pixel."""
    image, places = node[0], emit.cast(node[1], node[0].dtype)
    mode = node.choice("mode", ("bilinear", "bicubic", "nearest"), "bilinear")
    padding = node.choice("padding_mode", ("zeros", "border", "reflection"), "zeros")
    is_aligned = node.flag("align_corners", False)
    sampled = places
    if mode == "nearest" and padding == "border":
        sampled = emit.op("Where", emit.op("IsNaN", places), emit.like(np.inf, places), places, shape=places.shape)
    result = emit.op("GridSample", image, sampled, align_corners=int(is_aligned), mode=mode, padding_mode=padding)
    if mode == "bilinear" and padding != "zeros":
        return emit.op("Add", result, unless_finite(emit, image, places, is_aligned))
    return result
