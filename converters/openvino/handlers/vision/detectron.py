"""The operators of Detectron that OpenVINO has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.vision.box_selection import (
    candidates,
    nothing,
    put_back,
    span,
    suppressed_in_rounds,
)
from onnx_sparse.converters.openvino.handlers.vision.boxes import Box, overlap
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_F32, _I64 = TensorProto.FLOAT, TensorProto.INT64
#: More classes than any model has.
_TOO_MANY = 2**16


@handles(
    "ExperimentalDetectronTopKROIs-6",
    to="TopK, Gather",
    notes="Of equal chances, the first comes first; the rows after the last box are 0.",
)
def top_k_rois(node: Node, emit: InferringEmitter) -> Tensor:
    """ExperimentalDetectronTopKROIs-6: the `max_rois` most likely of boxes [boxes, 4] with chances [boxes]."""
    boxes, chances = node.ranked(0, 2, 2), node.ranked(1, 1, 1)
    most = node.integer("max_rois", 0)
    if most < 1:
        raise Unsupported(f"max_rois = {most}")
    count = emit.op("Min", emit.shape_of(chances), emit.constant([most]))
    _, places = emit.node("TopK", [chances, count], [chances.dtype, _I64], axis=0)
    best = emit.op("Gather", boxes, places, axis=0)
    missing = emit.op("Sub", emit.constant([most]), count)
    if missing.value is not None and not missing.value.any():
        return best
    return emit.op("Pad", best, emit.op("Concat", emit.constant([0, 0]), missing, emit.constant([0]), axis=0))


@handles("ExperimentalDetectronPriorGridGenerator-6", to="Range, Add")
def prior_grid(node: Node, emit: InferringEmitter) -> Tensor:
    """ExperimentalDetectronPriorGridGenerator-6: boxes [priors, 4] around the center of every cell of a feature map.

    The sizes of the cells are the strides, or those by which the map divides the image.
    """
    boxes = emit.cast(node.ranked(0, 2, 2), _F32)
    centers = []
    for axis, size_key, stride_key in ((3, "w", "stride_x"), (2, "h", "stride_y")):
        given, stride = node.integer(size_key, 0), np.float32(node.number(stride_key, 0))
        known = node.ranked(1, 4, 4).dim(axis)
        if not np.isfinite(stride) or (given and known not in (None, given)):  # OpenVINO's result is the map's size
            raise Unsupported(f"{size_key} = {given}, {stride_key} = {stride}, for a feature map {node[1]}")
        count = _size(emit, node[1], axis)
        if stride:
            node.disregard("2")
            step = emit.constant(stride, _F32)
        else:
            step = emit.op("Div", *(emit.cast(t, _F32) for t in (_size(emit, node.ranked(2, 4, 4), axis), count)))
        numbers = emit.cast(emit.op("Range", emit.constant(0), count, emit.constant(1)), _F32)
        centers.append(emit.op("Mul", step, emit.op("Add", numbers, emit.constant(0.5, _F32))))
    x, y = (emit.op("Unsqueeze", t, emit.constant(axes)) for t, axes in zip(centers, ([0, 2], [1, 2]), strict=True))
    space = emit.op("Concat", *(emit.shape_of(t, k, k + 1) for t, k in ((y, 0), (x, 1))), emit.constant([1]), axis=0)
    x, y = (emit.op("Expand", t, space) for t in (x, y))
    shifts = emit.op("Unsqueeze", emit.op("Concat", x, y, x, y, axis=2), emit.constant([2]))
    made = emit.cast(emit.op("Add", boxes, shifts), node[0].dtype)
    return emit.op("Reshape", made, emit.constant([-1, 4])) if node.flag("flatten", True) else made


@handles(
    "ExperimentalDetectronDetectionOutput-6",
    to="TopK, Loop",
    notes="score_threshold must not be negative. Of equal scores of one box, the lower class comes first.",
    ignored=("3", "class_agnostic_box_regression"),  # which OpenVINO's kernels do not read
)
def detection_output(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """ExperimentalDetectronDetectionOutput-6: (boxes [boxes, 4], moves [boxes, classes * 4], scores, image size).

    Returns the corners, classes and scores of `max_detections_per_image` boxes, which are 0 behind the last box. They
    are in the order of their classes, or of their scores if there were more. Class 0 is the background. The image's
    size has no say, as in OpenVINO's kernels: boxes may end outside of the image.
    """
    most, by_class = node.integer("max_detections_per_image"), node.integer("post_nms_count")
    least, classes = node.number("score_threshold"), node.integer("num_classes")
    if most < 1 or by_class < -1 or not least >= 0 or not 1 <= classes <= _TOO_MANY:
        raise Unsupported(
            f"max_detections_per_image = {most}, post_nms_count = {by_class}, score_threshold = {least}, "
            f"num_classes = {classes}"
        )
    given = emit.cast(node.ranked(0, 2, 2), _F32)
    moves, scores = (emit.cast(node.ranked(k, 2, 2), _F32) for k in (1, 2))
    if moves.dim(1) not in (None, 4 * classes) or scores.dim(1) not in (None, classes):
        raise Unsupported(f"num_classes = {classes}, for moves {node[1]} and scores {node[2]}")
    boxes = _moved(node, emit, given, emit.op("Reshape", moves, emit.constant([-1, classes, 4])))
    low, high = (emit.op("Slice", given, *span(emit, k, k + 2, 1)) for k in (0, 2))
    is_flat = emit.cast(emit.op("LessOrEqual", emit.op("Sub", high, low), emit.constant(0, _F32)), TensorProto.INT32)
    is_box = emit.op("Equal", emit.op("ReduceMax", is_flat, emit.constant([1])), emit.constant(0, TensorProto.INT32))
    is_class = emit.op("Greater", emit.constant(range(classes)), emit.constant(0))
    is_likely = emit.op("Greater", scores, emit.constant(least, _F32))
    is_candidate = emit.op("And", emit.op("And", is_box, is_class), is_likely)
    chances = emit.op("Transpose", emit.op("Where", is_candidate, scores, nothing(emit)), perm=[1, 0])
    image = emit.op("Unsqueeze", chances, emit.constant([0]))  # [1, classes, boxes]
    found = candidates(emit, emit.op("Transpose", boxes, perm=[1, 0, 2]), image, -1, by_class=True)
    limit = emit.constant(node.number("nms_threshold"), _F32)

    def rule(
        inner: InferringEmitter, box: Tensor, others: Tensor, states: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor]]:
        common = overlap(inner, Box.of(inner, others), Box.of(inner, box), 1.0, touching=True)
        return inner.op("Less", limit, common), []

    rounds = _size(emit, given, 0) if by_class < 0 else emit.constant(by_class)
    kept = put_back(emit, found, suppressed_in_rounds(emit, found, rounds, [], rule), image)
    return _best(node, emit, boxes, emit.op("Squeeze", kept, emit.constant([0])), most)


def _moved(node: Node, emit: InferringEmitter, boxes: Tensor, moves: Tensor) -> Tensor:
    """The boxes [boxes, classes, 4] that boxes [boxes, 4] become by moves [boxes, classes, 4]."""
    weights = node.numbers("deltas_weights")
    if len(weights) != 4 or not all(weights) or not np.isfinite(weights).all():
        raise Unsupported(f"deltas_weights = {weights[:9]}")
    moves = emit.op("Div", moves, emit.constant(weights, _F32))
    shifts, growths = (emit.op("Slice", moves, *span(emit, k, k + 2, 2)) for k in (0, 2))
    corners = emit.op("Unsqueeze", boxes, emit.constant([1]))
    low, high = (emit.op("Slice", corners, *span(emit, k, k + 2, 2)) for k in (0, 2))
    one, half, zero = (emit.constant(number, _F32) for number in (1, 0.5, 0))
    size = emit.op("Add", emit.op("Sub", high, low), one)
    center = emit.op("Add", emit.op("Mul", shifts, size), emit.op("Add", low, emit.op("Mul", half, size)))
    most = emit.constant(node.number("max_delta_log_wh"), _F32)
    grown = emit.op("Mul", emit.op("Exp", emit.op("Min", growths, most)), size)
    reach = emit.op("Mul", half, grown)
    first, last = emit.op("Sub", center, reach), emit.op("Sub", emit.op("Add", center, reach), one)
    return emit.op("Max", emit.op("Concat", first, last, axis=2), zero)


def _best(node: Node, emit: InferringEmitter, boxes: Tensor, kept: Tensor, most: int) -> tuple[Tensor, ...]:
    """The outputs, of boxes [boxes, classes, 4] and of the scores that are left of them, [classes, boxes]."""
    classes, first = emit.shape_of(kept, 0, 1), emit.constant([0])
    # Equal scores are in the order of boxes.
    flat = emit.op("Reshape", emit.op("Transpose", kept, perm=[1, 0]), emit.constant([-1]))
    every = emit.op("ReduceSum", emit.int64(emit.op("Greater", flat, nothing(emit))), first)
    count = emit.op("Min", every, emit.constant([most]))
    values, places = emit.node("TopK", [flat, count], [_F32, _I64], axis=0)
    labels = emit.op("Mod", places, classes)
    _, by_class = emit.node("TopK", [labels, count], [_I64, _I64], axis=0, largest=0)
    ranks = emit.op("Range", emit.constant(0), emit.op("Squeeze", count, first), emit.constant(1))
    order = emit.op("Where", emit.op("Greater", every, count), ranks, by_class)
    corners = emit.op("Gather", emit.op("Reshape", boxes, emit.constant([-1, 4])), places, axis=0)
    missing, none = emit.op("Sub", emit.constant([most]), count), emit.constant([0])
    made = []
    for tensor, pads in (
        (emit.cast(corners, node[0].dtype), [none, none, missing, none]),
        (labels, [none, missing]),
        (emit.cast(values, node[0].dtype), [none, missing]),
    ):
        made.append(emit.op("Pad", emit.op("Gather", tensor, order, axis=0), emit.op("Concat", *pads, axis=0)))
    return tuple(made)


def _size(emit: InferringEmitter, tensor: Tensor, axis: int) -> Tensor:
    return emit.op("Squeeze", emit.shape_of(tensor, axis, axis + 1), emit.constant([0]))
