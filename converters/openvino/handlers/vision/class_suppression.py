"""MatrixNms and MulticlassNms: the best boxes of each class of each image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.vision.box_selection import (
    Chosen,
    best_of_each,
    candidates,
    choose,
    nothing,
    put_back,
    suppressed,
    suppressed_in_rounds,
    without_background,
)
from onnx_sparse.converters.openvino.handlers.vision.boxes import Box, overlap
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_F32, _F64 = TensorProto.FLOAT, TensorProto.DOUBLE
_ORDERS = ("none", "score", "classid")


@handles(
    "MatrixNms-8",
    to="TopK, GatherND, ScatterND",
    notes="Without sort_result_across_batch, the boxes of an image are sorted by score, as OpenVINO's kernels do.",
)
def matrix_nms(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """MatrixNms-8: (boxes [images, boxes, 4], scores [images, classes, boxes]).

    Returns the chosen boxes as (class, score, corners), their places in all images' boxes, and how many each image has.
    """
    boxes, scores = (emit.cast(node[k], _F32) for k in (0, 1))
    is_candidate = emit.op("Greater", scores, emit.constant(node.number("score_threshold", 0), _F32))
    scores = without_background(node, emit, scores, is_candidate)
    found = candidates(emit, boxes, scores, _limit(node, "nms_top_k"))
    offset = 0.0 if node.flag("normalized", True) else 1.0
    one, other = Box.of(emit, found.boxes, 2), Box.of(emit, found.boxes, 1)  # [rows, boxes, 1] and [rows, 1, boxes]
    overlaps = overlap(emit, one, other, offset, flat=True)
    overlaps = emit.op("Where", emit.op("IsNaN", overlaps), emit.like(0, overlaps), overlaps)
    # Each box by those before it, which are better.
    count = emit.op("Squeeze", emit.shape_of(found.scores, 1, 2), emit.constant([0]))
    ranks = emit.op("Range", emit.constant(0), count, emit.constant(1))
    is_before = emit.op("Less", ranks, emit.op("Unsqueeze", ranks, emit.constant([1])))
    # With a column of zeros, which decide nothing, the largest of none is 0.
    before = emit.op("Pad", emit.op("Where", is_before, overlaps, emit.like(0, overlaps)),
                     emit.constant([0, 0, 0, 0, 0, 1]))  # fmt: skip
    most = emit.op("Unsqueeze", emit.op("ReduceMax", before, emit.constant([2]), keepdims=0), emit.constant([1]))
    if node.choice("decay_function", ("linear", "gaussian"), "linear") == "gaussian":
        squares = (emit.op("Mul", t, t) for t in (most, overlaps))
        decays = emit.op("Exp", emit.op("Mul", emit.op("Sub", *squares),
                                        emit.constant(node.number("gaussian_sigma", 2), _F32)))  # fmt: skip
    else:
        node.disregard("gaussian_sigma")
        one_, least = emit.constant(1.0, _F64), emit.constant(float(np.float32(1e-10)), _F64)
        left, most_left = (emit.op("Sub", one_, emit.cast(t, _F64)) for t in (overlaps, most))
        decays = emit.cast(emit.op("Div", left, emit.op("Add", most_left, least)), _F32)
    decays = emit.op("Where", is_before, decays, emit.like(1, decays))
    decays = emit.op("Pad", decays, emit.constant([0, 0, 0, 0, 0, 1]), emit.like(1, decays))
    decay = emit.op("ReduceMin", decays, emit.constant([2]), keepdims=0)
    decayed = emit.op("Mul", decay, found.scores)
    is_kept = emit.op("Greater", decayed, emit.constant(node.number("post_threshold", 0), _F32))
    is_kept = emit.op("And", is_kept, emit.op("Greater", found.scores, nothing(emit)))
    kept = put_back(emit, found, emit.op("Where", is_kept, decayed, nothing(emit)), scores)
    order, across = node.choice("sort_result_type", _ORDERS, "none"), node.flag("sort_result_across_batch", False)
    chosen = choose(emit, kept, _limit(node, "keep_top_k"), order if across else "score", across=across)
    return _results(emit, boxes, chosen)


@handles("MulticlassNms-8", "MulticlassNms-9", to="NonMaxSuppression, TopK, or Loop")
def multiclass_nms(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """MulticlassNms-8 and MulticlassNms-9: (boxes, scores, and if each class has boxes of its own, their numbers).

    The boxes are [images, boxes, 4] and the scores [images, classes, boxes]; or [classes, boxes, 4] and
    [classes, boxes], with the images' boxes one after another. Returns what MatrixNms returns.
    """
    boxes, scores = (emit.cast(node[k], _F32) for k in (0, 1))
    by_class = scores.rank == 2
    if by_class:
        scores = _by_image(emit, scores, emit.int64(node[2]))
    # Scores at the threshold are candidates.
    low = emit.op("Less", scores, emit.constant(node.number("score_threshold", 0), _F32))
    scores = without_background(node, emit, scores, emit.op("Not", low))
    threshold, eta = np.float32(node.number("iou_threshold", 0)), np.float32(node.number("nms_eta", 1))
    offset = 0.0 if node.flag("normalized", True) else 1.0
    top = _limit(node, "nms_top_k")
    adapts = 0 <= eta < 1 and threshold > 0.5
    if by_class or adapts:
        found = candidates(emit, boxes, scores, top, by_class=by_class)
        rows = emit.op("Concat", emit.shape_of(found.rows, 0, 1), emit.constant([1]), axis=0)
        limits = emit.op("Expand", emit.constant(threshold, _F32), rows)
        overlaps = emit.op("Expand", emit.constant(-np.inf, _F32), emit.shape_of(found.scores))

        def rule(
            inner: InferringEmitter, best: Tensor, boxes: Tensor, states: Sequence[Tensor]
        ) -> tuple[Tensor, Sequence[Tensor]]:
            limit, most = states
            if adapts:
                shrinks = inner.op("Greater", limit, inner.like(0.5, limit))
                limit = inner.op("Where", shrinks, inner.op("Mul", limit, inner.like(float(eta), limit)), limit)
            # A box is compared with all that are kept, by the limit as it is then.
            most = inner.op("Max", most, overlap(inner, Box.of(inner, boxes), Box.of(inner, best), offset))
            return inner.op("GreaterOrEqual", most, limit), [limit, most]

        count = emit.op("Squeeze", emit.shape_of(found.scores, 1, 2), emit.constant([0]))
        kept = put_back(emit, found, suppressed_in_rounds(emit, found, count, [limits, overlaps], rule), scores)
    else:
        kept = suppressed(emit, boxes, best_of_each(emit, scores, top), float(threshold), also_at=True, offset=offset)
    order, across = node.choice("sort_result_type", _ORDERS, "none"), node.flag("sort_result_across_batch", False)
    chosen = choose(emit, kept, _limit(node, "keep_top_k"), order, across=across)
    return _results(emit, boxes, chosen, by_class=by_class)


def _by_image(emit: InferringEmitter, scores: Tensor, numbers: Tensor) -> Tensor:
    """Scores [images, classes, boxes] of scores [classes, boxes]; -inf for boxes of other images."""
    numbers = emit.op("Max", numbers, emit.constant([0]))
    ends = emit.op("CumSum", numbers, emit.constant(0))
    count = emit.op("Squeeze", emit.shape_of(scores, 1, 2), emit.constant([0]))
    places = emit.op("Range", emit.constant(0), count, emit.constant(1))
    last, first = (emit.op("Unsqueeze", t, emit.constant([1, 2])) for t in (ends, emit.op("Sub", ends, numbers)))
    is_of = emit.op("And", emit.op("GreaterOrEqual", places, first), emit.op("Less", places, last))
    return emit.op("Where", is_of, emit.op("Unsqueeze", scores, emit.constant([0])), nothing(emit))


def _results(emit: InferringEmitter, boxes: Tensor, chosen: Chosen, *, by_class: bool = False) -> tuple[Tensor, ...]:
    axis = emit.constant([1])
    owner = chosen.classes if by_class else chosen.images
    at = [emit.op("Unsqueeze", t, axis) for t in (owner, chosen.places)]
    corners = emit.op("GatherND", boxes, emit.op("Concat", *at, axis=1))
    columns = [emit.op("Unsqueeze", emit.cast(t, _F32), axis) for t in (chosen.classes, chosen.scores)]
    if by_class:  # the boxes of a class are not together here
        outer, size, within = chosen.places, emit.shape_of(boxes, 0, 1), chosen.classes
    else:
        outer, size, within = chosen.images, emit.shape_of(boxes, 1, 2), chosen.places
    index = emit.op("Add", emit.op("Mul", outer, size), within)
    return emit.op("Concat", *columns, corners, axis=1), emit.op("Unsqueeze", index, axis), chosen.counts


def _limit(node: Node, key: str) -> int:
    """A number of boxes; -1 is no limit.

    Raises:
        Unsupported: It is less.
    """
    number = node.integer(key, -1)
    if number < -1:
        raise Unsupported(f"{key} = {number}")
    return number
