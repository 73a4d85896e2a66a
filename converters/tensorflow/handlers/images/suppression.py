"""tf.raw_ops.NonMaxSuppression, V2 to V5, and CombinedNonMaxSuppression: no boxes that overlap better ones."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter

_FLOATS = ("float16", "float")


@handles("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", to="NonMaxSuppression", dtypes=_FLOATS)
def suppress(node: Node, emit: Emitter) -> Tensor:
    """The numbers of the boxes that are kept, the best first."""
    return emit.cast(_kept(node, emit), TensorProto.INT32)


@handles("NonMaxSuppressionV4", to="NonMaxSuppression", dtypes=_FLOATS)
def suppress_padded(node: Node, emit: Emitter) -> tuple[Tensor, Tensor]:
    """The numbers of the boxes that are kept, followed by zeros if asked for, and how many these are."""
    kept = _kept(node, emit)
    return _padded(kept, node, emit), _count(kept, emit)


@handles("NonMaxSuppressionV5", to="NonMaxSuppression", dtypes=_FLOATS, notes="soft_nms_sigma is 0")
def suppress_softly(node: Node, emit: Emitter) -> tuple[Tensor, Tensor, Tensor]:
    """The numbers and scores of the boxes that are kept, and how many these are."""
    if np.any(node["soft_nms_sigma"].constant("soft_nms_sigma")):
        raise Unsupported("ONNX Runtime does not lower the scores of boxes that overlap; soft_nms_sigma is not 0")
    kept = _kept(node, emit)
    scores = emit.op("Gather", node["scores"], kept)
    if node.attributes["pad_to_max_output_size"]:
        missing = _missing(kept, node, emit)
        scores = emit.op("Concat", scores, emit.op("Expand", emit.like(0, scores), missing), axis=0)
    return _padded(kept, node, emit), scores, _count(kept, emit)


def _kept(node: Node, emit: Emitter) -> Tensor:
    """The numbers of the boxes that are kept, as int64."""
    boxes, scores = (emit.cast(node[name], TensorProto.FLOAT) for name in ("boxes", "scores"))
    first = emit.constant([0])
    limits = [emit.op("Reshape", emit.int64(node["max_output_size"]), emit.constant([1]))]
    if "iou_threshold" not in node.inputs:
        limits.append(emit.constant([float(node.attributes["iou_threshold"])], TensorProto.FLOAT))
    for name in ("iou_threshold", "score_threshold"):
        if name in node.inputs:
            limit = emit.cast(node[name], TensorProto.FLOAT)
            limits.append(emit.op("Reshape", limit, emit.constant([1])))
    given = [emit.op("Unsqueeze", boxes, first), emit.op("Unsqueeze", scores, emit.constant([0, 1])), *limits]
    found = emit.op("NonMaxSuppression", *given, dtype=TensorProto.INT64, shape=(None, 3))
    return emit.op("Squeeze", emit.op("Slice", found, emit.constant([2]), emit.constant([3]), emit.constant([1])),
                   emit.constant([1]))  # fmt: skip


def _missing(kept: Tensor, node: Node, emit: Emitter) -> Tensor:
    most = emit.op("Reshape", emit.int64(node["max_output_size"]), emit.constant([1]))
    return emit.op("Sub", most, emit.shape_of(kept))


def _padded(kept: Tensor, node: Node, emit: Emitter) -> Tensor:
    numbers = emit.cast(kept, TensorProto.INT32)
    if not node.attributes["pad_to_max_output_size"]:
        return numbers
    zeros = emit.op("Expand", emit.like(0, numbers), _missing(kept, node, emit))
    return emit.op("Concat", numbers, zeros, axis=0)


def _count(kept: Tensor, emit: Emitter) -> Tensor:
    return emit.cast(emit.op("Size", kept, shape=()), TensorProto.INT32)


@handles("CombinedNonMaxSuppression", to="NonMaxSuppression", dtypes=("float",))
def suppress_by_class(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The best boxes of each image, after each class is rid of those that overlap better ones of the class."""
    boxes, scores = node["boxes"], node["scores"]
    if boxes.rank != 4 or scores.rank != 3:
        raise Unsupported(f"{boxes} and {scores} are not of ranks 4 and 3")
    zero, one, first = emit.constant(0), emit.constant(1), emit.constant([0])
    batch, count, classes = (emit.size(scores, k) for k in range(3))
    kinds = emit.op("Mul", batch, classes)
    # A problem for each image and class, as classes may have boxes of their own.
    wide = emit.op("Expand", boxes, emit.op("Concat", batch, count, classes, emit.constant([4]), axis=0))
    wide = emit.op("Transpose", wide, perm=[0, 2, 1, 3])
    each = emit.op("Reshape", wide, emit.op("Concat", kinds, count, emit.constant([4]), axis=0), allowzero=1)
    by_class = emit.op("Transpose", scores, perm=[0, 2, 1])
    apart = emit.op("Reshape", by_class, emit.op("Concat", kinds, emit.constant([1]), count, axis=0), allowzero=1)
    most = emit.op("Reshape", emit.int64(node["max_output_size_per_class"]), emit.constant([1]))
    limits = [
        emit.op("Reshape", emit.cast(node[name], TensorProto.FLOAT), emit.constant([1]))
        for name in ("iou_threshold", "score_threshold")
    ]
    found = emit.op("NonMaxSuppression", each, apart, most, *limits, dtype=TensorProto.INT64, shape=(None, 3))
    kind, box = (emit.op("Gather", found, emit.constant(k), axis=1) for k in (0, 2))
    # The scores of the boxes that are kept, in a table [images, classes * boxes] of the lowest number.
    lowest = emit.constant(float(np.finfo(np.float32).min), TensorProto.FLOAT)
    flat = emit.op("Reshape", by_class, emit.constant([-1]))
    place = emit.op("Add", emit.op("Mul", kind, emit.scalar(count)), box)
    table = emit.op("Expand", lowest, emit.shape_of(flat))
    table = emit.op("ScatterElements", table, place, emit.op("Gather", flat, place), axis=0)
    width = emit.op("Mul", classes, count)
    table = emit.op("Reshape", table, emit.op("Concat", batch, width, axis=0), allowzero=1)
    total = emit.op("Reshape", emit.int64(node["max_total_size"]), emit.constant([1]))
    if node.attributes["pad_per_class"]:
        total = emit.op("Min", total, emit.op("Mul", most, classes))
    taken = emit.op("Min", total, width)
    best, order = emit.node("TopK", [table, taken], [TensorProto.FLOAT, TensorProto.INT64])
    is_kept = emit.op("Greater", best, lowest)
    valid = emit.op("ReduceSum", emit.cast(is_kept, TensorProto.INT32), emit.constant([1]), keepdims=0)
    nothing = emit.constant(0.0, TensorProto.FLOAT)
    chosen = emit.op("Div", order, emit.op("Max", count, one))
    kept_scores = emit.op("Where", is_kept, best, nothing)
    kept_classes = emit.op("Where", is_kept, emit.cast(chosen, TensorProto.FLOAT), nothing)
    images = emit.op("Unsqueeze", emit.op("Range", zero, emit.scalar(batch), one), emit.constant([1]))
    rows = emit.op("Add", emit.op("Mul", images, emit.scalar(width)), order)
    all_boxes = emit.op("Reshape", each, emit.constant([-1, 4]))
    kept_boxes = emit.op(
        "Where", emit.op("Unsqueeze", is_kept, emit.constant([2])), emit.op("Gather", all_boxes, rows), nothing
    )
    if node.attributes["clip_boxes"]:
        kept_boxes = emit.op("Max", emit.op("Min", kept_boxes, emit.constant(1.0, TensorProto.FLOAT)), nothing)
    behind = emit.op("Concat", first, emit.op("Sub", total, taken), axis=0)
    made = [
        emit.op("Pad", each, behind, nothing, emit.constant([1])) for each in (kept_boxes, kept_scores, kept_classes)
    ]
    return (*made, valid)
