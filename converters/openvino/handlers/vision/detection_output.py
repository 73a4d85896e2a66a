"""DetectionOutput: boxes of a detector, decoded, suppressed by class, and the best of each image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.vision.box_selection import best_of_each, span, suppressed
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_F32 = TensorProto.FLOAT
#: After all places.
_LAST = 2**62


@dataclass(frozen=True)
class _Sizes:
    """How many images, priors, classes and boxes per prior there are: vectors of one element."""

    images: Tensor
    priors: Tensor
    classes: Tensor
    boxes: Tensor


@handles(
    "DetectionOutput-1",
    "DetectionOutput-8",
    to="NonMaxSuppression, TopK",
    notes="Of equal scores of one box, the lower class is kept at the limit of keep_top_k.",
    ignored=("num_classes",),  # OpenVINO refuses scores of another number of classes
)
def detection_output(node: Node, emit: InferringEmitter) -> Tensor:
    """DetectionOutput: (locations, scores, priors, and of a first stage scores and locations) to [1, 1, rows, 7].

    A row is the image, the class, the score and the box. The rows of an image are by class, and then by score; after
    the last one stands a row that begins with -1, if there is room.
    """
    width = 4 if node.flag("normalized", False) else 5
    if width == 4:
        node.disregard("input_height", "input_width")
    if len(node.inputs) < 5:
        node.disregard("objectness_score")
    priors = emit.cast(node[2], _F32)
    count = emit.op("Div", emit.shape_of(priors, 2, 3), emit.constant([width]))
    scored = emit.shape_of(node[1])
    classes = emit.op("Div", emit.op("Gather", scored, emit.constant([1])), count)
    is_shared = node.flag("share_location", True)
    boxes_per_prior = emit.constant([1]) if is_shared else classes
    sizes = _Sizes(emit.op("Gather", scored, emit.constant([0])), count, classes, boxes_per_prior)
    boxes = _boxes(node, emit, priors, width, sizes)
    scores = _candidates(node, emit, priors, width, sizes)
    return _rows(node, emit, boxes, _suppressed(node, emit, boxes, scores, sizes), sizes)


def _boxes(node: Node, emit: InferringEmitter, priors: Tensor, width: int, sizes: _Sizes) -> Tensor:
    """The decoded boxes [images, classes, priors, 4]."""
    shape = emit.op("Concat", emit.constant([0, -1]), sizes.priors, emit.constant([width]), axis=0)
    given = emit.op("Slice", emit.op("Reshape", priors, shape), *span(emit, width - 4, width, 3))
    corners = emit.op("Transpose", emit.op("Slice", given, *span(emit, 0, 1, 1)), perm=[0, 2, 1, 3])
    variance = None
    if not node.flag("variance_encoded_in_target", False):
        # Four for each prior, also where priors have five numbers.
        row = emit.op("Slice", priors, *span(emit, 1, 2, 1))
        ends = emit.op("Mul", sizes.priors, emit.constant([4]))
        row = emit.op("Slice", row, emit.constant([0]), ends, emit.constant([2]))
        variance = emit.op(
            "Reshape", row, emit.op("Concat", emit.constant([0]), sizes.priors, emit.constant([1, 4]), axis=0)
        )
    if len(node.inputs) == 5:
        corners = _decoded(node, emit, corners, variance, _located(emit, node[4], sizes))
    decoded = _decoded(node, emit, corners, variance, _located(emit, node[0], sizes))
    by_class = emit.op("Transpose", decoded, perm=[0, 2, 1, 3])
    return emit.op("Expand", by_class, emit.op("Concat", sizes.images, sizes.classes, emit.constant([1, 1]), axis=0))


def _located(emit: InferringEmitter, locations: Tensor, sizes: _Sizes) -> Tensor:
    shape = emit.op("Concat", sizes.images, sizes.priors, sizes.boxes, emit.constant([4]), axis=0)
    return emit.op("Reshape", emit.cast(locations, _F32), shape)


def _decoded(node: Node, emit: InferringEmitter, priors: Tensor, variance: Tensor | None, location: Tensor) -> Tensor:
    """Boxes [images, priors, boxes, 4] of corners, and of what a network says of their places."""
    if not node.flag("normalized", False):
        height, width = (float(node.integer(key, 1)) for key in ("input_height", "input_width"))
        priors = emit.op("Div", priors, emit.constant(np.array([width, height] * 2, np.float32)))
    moved = location if variance is None else emit.op("Mul", variance, location)
    code = node.choice("code_type", tuple(f"caffe.priorboxparameter.{kind}" for kind in ("corner", "center_size")),
                       "caffe.PriorBoxParameter.CORNER")  # fmt: skip
    if code.endswith("corner"):
        made = emit.op("Add", priors, moved)
    else:
        low, high = (emit.op("Slice", priors, *span(emit, k, k + 2, 3)) for k in (0, 2))
        shift, growth = (emit.op("Slice", moved, *span(emit, k, k + 2, 3)) for k in (0, 2))
        size, two = emit.op("Sub", high, low), emit.like(2, priors)
        center = emit.op("Add", emit.op("Mul", shift, size), emit.op("Div", emit.op("Add", low, high), two))
        half = emit.op("Div", emit.op("Mul", emit.op("Exp", growth), size), two)
        made = emit.op("Concat", emit.op("Sub", center, half), emit.op("Add", center, half), axis=3)
    return _clipped(emit, made) if node.flag("clip_before_nms", False) else made


def _clipped(emit: InferringEmitter, boxes: Tensor) -> Tensor:
    return emit.op("Max", emit.like(0, boxes), emit.op("Min", emit.like(1, boxes), boxes))


def _candidates(node: Node, emit: InferringEmitter, priors: Tensor, width: int, sizes: _Sizes) -> Tensor:
    """The scores [images, classes, priors] of what is to be suppressed by each other; -inf is none."""
    by_prior = emit.op("Concat", sizes.images, sizes.priors, emit.constant([-1]), axis=0)
    scores = emit.op("Reshape", emit.cast(node[1], _F32), by_prior)
    background = node.integer("background_label_id", 0)
    labels = emit.op("Range", emit.constant(0), emit.op("Squeeze", sizes.classes), emit.constant(1))
    is_background = emit.op("Equal", labels, emit.constant(background))
    if len(node.inputs) == 5:
        first = emit.op("Slice", emit.op("Reshape", emit.cast(node[3], _F32), by_prior), *span(emit, 1, 2, 2))
        is_nothing = emit.op("Less", first, emit.constant(node.number("objectness_score", 0), _F32))
        scores = emit.op("Where", is_nothing, emit.cast(is_background, _F32), scores)
    none, threshold = emit.constant(-np.inf, _F32), emit.constant(node.number("confidence_threshold", 0), _F32)
    top = node.integer("top_k", -1)
    if top == 0 or top < -1:
        raise Unsupported(f"top_k = {top}")
    is_one_class = node.flag("decrease_label_id", False)
    if is_one_class:
        if background != 0:
            raise Unsupported(f"decrease_label_id with background_label_id = {background}")
        reached = emit.op("And", emit.op("Not", emit.op("Less", scores, threshold)),
                          emit.op("Greater", scores, emit.like(-1, scores)))  # fmt: skip
        scores = emit.op("Where", emit.op("And", reached, emit.op("Not", is_background)), scores, none)
        best = emit.op("Unsqueeze", emit.op("ArgMax", scores, axis=2, keepdims=0), emit.constant([2]))
        kept = emit.op("Equal", labels, best)
    else:
        kept = emit.op("And", emit.op("Greater", scores, threshold), emit.op("Not", is_background))
    if width == 5:
        # The priors of an image end with the first one whose image is -1.
        rows = emit.op("Slice", priors, *span(emit, 0, 1, 1))
        cut = emit.op("Concat", emit.constant([0]), sizes.priors, emit.constant([5]), axis=0)
        images = emit.op("Slice", emit.op("Reshape", rows, cut), *span(emit, 0, 1, 2))
        ended = emit.op("CumSum", emit.int64(emit.op("Equal", images, emit.like(-1, images))), emit.constant(1))
        kept = emit.op("And", kept, emit.op("Equal", ended, emit.constant(0)))
    scores = emit.op("Transpose", emit.op("Where", kept, scores, none), perm=[0, 2, 1])
    return scores if top == -1 else _best(emit, scores, top, sizes, of_all_classes=is_one_class)


def _best(emit: InferringEmitter, scores: Tensor, top: int, sizes: _Sizes, *, of_all_classes: bool) -> Tensor:
    """The highest scores of each class, or of an image; the others are -inf."""
    if not of_all_classes:
        return best_of_each(emit, scores, top)
    flat = emit.op("Reshape", scores, emit.op("Concat", sizes.images, emit.constant([-1]), axis=0), allowzero=0)
    return emit.op("Reshape", best_of_each(emit, flat, top), emit.shape_of(scores))


def _suppressed(node: Node, emit: InferringEmitter, boxes: Tensor, scores: Tensor, sizes: _Sizes) -> Tensor:
    """The scores [images, priors, classes] that are left; -inf is none."""
    threshold = node.number("nms_threshold")
    if not 0 <= threshold <= 1:
        raise Unsupported(f"nms_threshold = {threshold}, which is not from 0 to 1 as ONNX Runtime demands")
    by_class = emit.op("Concat", emit.constant([-1]), sizes.priors, emit.constant([4]), axis=0)
    alone = emit.op("Concat", emit.constant([-1, 1]), sizes.priors, axis=0)
    left = suppressed(emit, emit.op("Reshape", boxes, by_class), emit.op("Reshape", scores, alone), threshold,
                      also_at=False)  # fmt: skip
    return emit.op("Transpose", emit.op("Reshape", left, emit.shape_of(scores)), perm=[0, 2, 1])


def _rows(node: Node, emit: InferringEmitter, boxes: Tensor, scores: Tensor, sizes: _Sizes) -> Tensor:
    """The best of each image, by class, and then by score."""
    keep, top = node.integers("keep_top_k")[0], node.integer("top_k", -1)
    if keep == 0 or keep < -1:
        raise Unsupported(f"keep_top_k = {keep}")
    every = emit.op("Mul", sizes.priors, sizes.classes)
    if keep > 0:
        rows = emit.constant([keep])
    else:
        rows = every if top == -1 else emit.op("Mul", sizes.classes, emit.constant([top]))
    flat = emit.op("Reshape", scores, emit.op("Concat", sizes.images, every, axis=0))
    count = emit.op("Min", every, emit.constant([keep])) if keep > 0 else every
    values, places = emit.node("TopK", [flat, count], [_F32, TensorProto.INT64])
    is_found = emit.op("Greater", values, emit.constant(-np.inf, _F32))
    labels = emit.op("Mod", places, sizes.classes)
    ranks = emit.op("Range", emit.constant(0), emit.op("Squeeze", count), emit.constant(1))
    keys = emit.op("Where", is_found, emit.op("Add", emit.op("Mul", labels, count), ranks), emit.constant(_LAST))
    _, order = emit.node("TopK", [keys, count], [TensorProto.INT64] * 2, largest=0)
    found = emit.op("NonZero", emit.op("GatherElements", is_found, order, axis=1))
    image, rank = (emit.op("Gather", found, emit.constant(k)) for k in (0, 1))
    at = [emit.op("Unsqueeze", t, emit.constant([1])) for t in (image, rank)]
    # From the place in the final order to the place among the best.
    best = emit.op("Concat", at[0], emit.op("Unsqueeze", emit.op("GatherND", order, emit.op("Concat", *at, axis=1)),
                                            emit.constant([1])), axis=1)  # fmt: skip
    label, place, value = (emit.op("GatherND", t, best) for t in (labels, places, values))
    prior = emit.op("Div", place, sizes.classes)
    where = [emit.op("Unsqueeze", t, emit.constant([1])) for t in (image, label, prior)]
    box = emit.op("GatherND", boxes, emit.op("Concat", *where, axis=1))
    if node.flag("clip_after_nms", False):
        box = _clipped(emit, box)
    if node.flag("decrease_label_id", False):
        label = emit.op("Sub", label, emit.constant(1))
    columns = [emit.op("Unsqueeze", emit.cast(t, _F32), emit.constant([1])) for t in (image, label, value)]
    made = emit.op("Concat", *columns, box, axis=1)
    end = emit.constant(np.array([[-1, 0, 0, 0, 0, 0, 0]], np.float32))
    total = emit.op("Mul", sizes.images, rows)
    room = emit.op("Sub", total, emit.shape_of(made, 0, 1))
    padded = emit.op("Pad", emit.op("Concat", made, end, axis=0), emit.op(
        "Concat", emit.constant([0, 0]), emit.op("Max", emit.op("Sub", room, emit.constant([1])), emit.constant([0])),
        emit.constant([0]), axis=0))  # fmt: skip
    cut = emit.op("Slice", padded, emit.constant([0]), total, emit.constant([0]))
    return emit.op("Unsqueeze", cut, emit.constant([0, 1]))
