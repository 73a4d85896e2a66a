"""How boxes of detectors are chosen: suppressed by each other, the best of each image, and in which order.

Scores are [images, classes, boxes]; -inf stands for what is not chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.openvino.handlers.registry import Node
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_F32, _I64, _BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Candidates:
    """The boxes that compete with each other, a row for each class of an image that has any.

    Attributes:
        rows: The image and the class of each row, [rows, 2].
        scores: Their scores, the best first, [rows, boxes]; -inf where a row has fewer.
        places: Their places among the boxes of the image, [rows, boxes].
        boxes: Their numbers, the corners for most operators, [rows, boxes, numbers].
    """

    rows: Tensor
    scores: Tensor
    places: Tensor
    boxes: Tensor


@dataclass(frozen=True)
class Chosen:
    """The chosen boxes in their final order, and how many each image has.

    Attributes:
        images: The image of each box.
        classes: Its class.
        places: Its place among the boxes of the image.
        scores: Its score.
        counts: How many boxes each image has.
    """

    images: Tensor
    classes: Tensor
    places: Tensor
    scores: Tensor
    counts: Tensor


def nothing(emit: InferringEmitter) -> Tensor:
    """The score of what is not chosen."""
    return emit.constant(-np.inf, _F32)


def without_background(node: Node, emit: InferringEmitter, scores: Tensor, is_candidate: Tensor) -> Tensor:
    """Scores, and -inf where `is_candidate` is false or the class is `background_class`."""
    classes = emit.op("Range", emit.constant(0), _scalar(emit, emit.shape_of(scores, 1, 2)), emit.constant(1))
    is_background = emit.op("Equal", classes, emit.constant(node.integer("background_class", -1)))
    column = emit.op("Unsqueeze", is_background, emit.constant([1]))
    kept = emit.op("And", is_candidate, emit.op("Not", column))
    return emit.op("Where", kept, scores, nothing(emit))


def most_of(emit: InferringEmitter, scores: Tensor, limit: int) -> Tensor:
    """The largest number of candidates in a row of the last axis, at most `limit` if that is not negative; [1]."""
    found = emit.int64(emit.op("Greater", scores, nothing(emit)))
    counts = emit.op("Reshape", emit.op("ReduceSum", found, emit.constant([-1]), keepdims=0), emit.constant([-1]))
    most = emit.op("ReduceMax", emit.op("Concat", emit.constant([0]), counts, axis=0), emit.constant([0]))
    return most if limit < 0 else emit.op("Min", most, emit.constant([limit]))


def best_of_each(emit: InferringEmitter, scores: Tensor, limit: int) -> Tensor:
    """Scores, and -inf for all but the `limit` best of each row of the last axis; -1 is no limit."""
    if limit < 0:
        return scores
    values, places = emit.node("TopK", [scores, most_of(emit, scores, limit)], [_F32, _I64])
    empty = emit.op("Expand", nothing(emit), emit.shape_of(scores))
    return emit.op("ScatterElements", empty, places, values, axis=-1)


def candidates(
    emit: InferringEmitter, boxes: Tensor, scores: Tensor, limit: int, *, by_class: bool = False
) -> Candidates:
    """The candidates of each class of each image, at most `limit` if that is not negative.

    Args:
        emit: Receives the nodes.
        boxes: [images, boxes, numbers], or if `by_class` [classes, boxes, numbers].
        scores: [images, classes, boxes].
        limit: How many candidates a class of an image has at most; -1 is no limit.
        by_class: Whether the classes have boxes of their own, and the images do not.
    """
    any_found = emit.op("ReduceSum", emit.int64(emit.op("Greater", scores, nothing(emit))), emit.constant([2]),
                        keepdims=0)  # fmt: skip
    rows = emit.op("Transpose", emit.op("NonZero", any_found), perm=[1, 0])
    by_row = emit.op("GatherND", scores, rows)
    values, places = emit.node("TopK", [by_row, most_of(emit, by_row, limit)], [_F32, _I64])
    owner = emit.op("Gather", rows, emit.constant([int(by_class)]), axis=1)
    owners = emit.op("Expand", owner, emit.shape_of(places))
    at = emit.op("Concat", *(emit.op("Unsqueeze", t, emit.constant([2])) for t in (owners, places)), axis=2)
    return Candidates(rows, values, places, emit.op("GatherND", boxes, at))


def put_back(emit: InferringEmitter, found: Candidates, kept: Tensor, scores: Tensor) -> Tensor:
    """What is kept of candidates, [rows, boxes], in the shape of the scores."""
    places = emit.op("Unsqueeze", found.places, emit.constant([2]))
    size = emit.op("Concat", emit.shape_of(found.places), emit.constant([2]), axis=0)
    rows = emit.op("Expand", emit.op("Unsqueeze", found.rows, emit.constant([1])), size)
    empty = emit.op("Expand", nothing(emit), emit.shape_of(scores))
    return emit.op("ScatterND", empty, emit.op("Concat", rows, places, axis=2), kept)


def suppressed(
    emit: InferringEmitter, boxes: Tensor, scores: Tensor, threshold: float, *, also_at: bool, offset: float = 0.0
) -> Tensor:
    """The scores that are left where a box gives way to better ones that overlap it.

    Args:
        emit: Receives the nodes.
        boxes: [images, boxes, 4].
        scores: [images, classes, boxes].
        threshold: The part of their union beyond which boxes overlap; not negative, unless `also_at`.
        also_at: Whether they also overlap at the threshold.
        offset: What is added to the sizes of boxes: 1 where corners are pixels within the boxes, else 0.
    """
    most = emit.shape_of(scores, 2, 3)
    beyond = np.float32(min(threshold, 1))  # ONNX takes none above 1, at which nothing is dropped
    if also_at and threshold <= 0:  # boxes that do not meet overlap by that
        most, beyond = emit.constant([1]), np.float32(0)
    elif also_at and threshold <= 1:
        beyond = np.nextafter(np.float32(threshold), np.float32(0))
    low, high = (emit.op("Slice", boxes, *span(emit, k, k + 2, 2)) for k in (0, 2))
    if offset:
        high = emit.op("Add", high, emit.like(offset, high))
    # A box with its corners the wrong way round meets none; ONNX Runtime would turn it.
    wrong = emit.op("ReduceMax", emit.cast(emit.op("Less", high, low), TensorProto.INT32), emit.constant([2]))
    whole = emit.op("Concat", low, high, axis=2)
    flat = emit.op("Where", emit.cast(wrong, _BOOL), emit.like(0, whole), whole)
    limits = [emit.constant([number], _F32) for number in (beyond, _LOWEST)]
    (chosen,) = emit.node("NonMaxSuppression", [flat, scores, most, *limits], [_I64])
    empty = emit.op("Expand", nothing(emit), emit.shape_of(scores))
    return emit.op("ScatterND", empty, chosen, emit.op("GatherND", scores, chosen))


#: Given (emitter, the best box of each row [rows, 1, ..], all boxes [rows, boxes, ..], the states): which boxes lose
#: [rows, boxes], and the next states.
Rule = Callable[[InferringEmitter, Tensor, Tensor, Sequence[Tensor]], tuple[Tensor, Sequence[Tensor]]]


def suppressed_in_rounds(
    emit: InferringEmitter, found: Candidates, rounds: Tensor, states: Sequence[Tensor], rule: Rule
) -> Tensor:
    """The scores of candidates that are left when the best one of each row, round by round, suppresses others.

    For what NonMaxSuppression cannot say. Each round is a few operations on all rows at once.

    Args:
        emit: Receives the nodes.
        found: The candidates.
        rounds: How many boxes a row keeps at most, a scalar.
        states: What the rule goes by, [rows, ...].
        rule: Which boxes lose when a row has a best one.
    """
    inner = emit.body()
    inner.begin("round")

    def given(name: str, like: Tensor) -> Tensor:
        return Tensor(inner.names.fresh(f"round/{name}"), like.dtype, (None,) * like.rank)

    iteration, again = given("number", rounds), Tensor(inner.names.fresh("round/again"), _BOOL, ())
    left, kept = given("left", found.scores), given("kept", found.scores)
    current = [given("state", state) for state in states]
    best = inner.op("ArgMax", left, axis=1, keepdims=1)
    is_found = inner.op("Greater", inner.op("GatherElements", left, best, axis=1), nothing(inner))
    size = inner.op("Concat", inner.constant([1, 1]), inner.shape_of(found.boxes, 2, 3), axis=0)
    index = inner.op("Expand", inner.op("Unsqueeze", best, inner.constant([2])), size)
    box = inner.op("GatherElements", found.boxes, index, axis=1)
    loses, following = rule(inner, box, found.boxes, current)
    places = inner.op("Range", inner.constant(0), _scalar(inner, inner.shape_of(left, 1, 2)), inner.constant(1))
    is_best = inner.op("Equal", places, best)
    remaining = inner.op("Where", inner.op("Or", is_best, loses), nothing(inner), left)
    more = inner.op("Where", inner.op("And", is_best, is_found), left, kept)
    # An output of a graph is made by a node in it.
    results = [_is_any(inner, remaining), *(inner.op("Identity", t) for t in (remaining, more, *following))]
    graph = inner.graph("round", [value_info(t) for t in (iteration, again, left, kept, *current)],
                        [value_info(t) for t in results])  # fmt: skip
    empty = emit.op("Expand", nothing(emit), emit.shape_of(found.scores))
    starts = [found.scores, empty, *states]
    made = emit.node("Loop", [rounds, _is_any(emit, found.scores), *starts], [t.dtype for t in starts],
                     [(None,) * t.rank for t in starts], body=graph)  # fmt: skip
    return made[1]


def _is_any(emit: InferringEmitter, scores: Tensor) -> Tensor:
    """Whether there is a candidate."""
    found = emit.int64(emit.op("Greater", scores, nothing(emit)))
    return emit.op("Greater", emit.op("ReduceSum", found, keepdims=0), emit.constant(0))


def choose(emit: InferringEmitter, scores: Tensor, keep: int, order: str, *, across: bool) -> Chosen:
    """The best boxes of each image.

    Args:
        emit: Receives the nodes.
        scores: [images, classes, boxes].
        keep: How many boxes an image keeps at most; -1 is no limit.
        order: `score`, the best first, `classid`, by class and then by score, or `none`.
        across: Whether they are ordered across the images; else those of an image stay together. Without an order,
            they are always by image and score.
    """
    count = emit.shape_of(scores, 2, 3)
    flat = emit.op("Reshape", scores, emit.op("Concat", emit.shape_of(scores, 0, 1),
                   emit.op("Mul", emit.shape_of(scores, 1, 2), count), axis=0), allowzero=1)  # fmt: skip
    # Equal scores stay in the order of classes and boxes.
    values, places = emit.node("TopK", [flat, most_of(emit, flat, keep)], [_F32, _I64])
    is_found = emit.op("Greater", values, nothing(emit))
    counts = emit.op("ReduceSum", emit.int64(is_found), emit.constant([1]), keepdims=0)
    at = emit.op("Transpose", emit.op("NonZero", is_found), perm=[1, 0])
    image = emit.op("Gather", at, emit.constant(0), axis=1)
    score, place = (emit.op("GatherND", t, at) for t in (values, places))
    label, box = emit.op("Div", place, count), emit.op("Mod", place, count)
    if (order, across) in (("none", False), ("none", True), ("score", False)):
        return Chosen(image, label, box, score, counts)
    if order == "score":
        key, largest = score, 1
    else:
        outer, within = (label, image) if across else (image, label)
        size = emit.shape_of(scores, 0, 1) if across else emit.shape_of(scores, 1, 2)
        key, largest = emit.op("Add", emit.op("Mul", outer, size), within), 0
    _, ranks = emit.node("TopK", [key, emit.shape_of(key)], [key.dtype, _I64], largest=largest)
    image, label, box, score = (emit.op("Gather", t, ranks) for t in (image, label, box, score))
    return Chosen(image, label, box, score, counts)


def span(emit: InferringEmitter, start: int, end: int, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """The inputs of a Slice along one axis."""
    return emit.constant([start]), emit.constant([end]), emit.constant([axis])


def _scalar(emit: InferringEmitter, vector: Tensor) -> Tensor:
    return emit.op("Squeeze", vector, emit.constant([0]))
