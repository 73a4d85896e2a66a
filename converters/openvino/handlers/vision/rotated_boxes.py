"""NMSRotated: the choice of boxes that are turned, by the overlap of polygons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx import TensorProto

from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.vision.box_selection import (
    candidates,
    nothing,
    put_back,
    suppressed_in_rounds,
)
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_F32, _F64, _I64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
#: The part of the areas of two boxes up to which what they have in common is rounding: they only touch.
_ROUNDING = 1e-12


@handles("NMSRotated-13", to="TopK, Loop")
def nms_rotated(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """NMSRotated-13: (boxes [images, boxes, (center, width, height, angle)], scores, most per class, IoU, score).

    Returns the chosen boxes as (image, class, box), the same with scores for boxes, and their number. With
    `sort_result_descending` the best come first, whatever their image and class.
    """
    boxes, scores = (emit.cast(node.ranked(k, 3, 3), _F32) for k in (0, 1))
    most = emit.int64(emit.scalar(node[2]))
    limit, least = (emit.cast(emit.scalar(node[k]), _F32) for k in (3, 4))
    likely = emit.op("Where", emit.op("Greater", scores, least), scores, nothing(emit))
    found = candidates(emit, _turned(node, emit, boxes), likely, -1)

    def rule(
        inner: InferringEmitter, box: Tensor, others: Tensor, states: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor]]:
        return inner.op("Greater", _overlap(inner, _Turned.of(inner, box), _Turned.of(inner, others)), limit), []

    kept = put_back(emit, found, suppressed_in_rounds(emit, found, most, [], rule), likely)
    values, places = emit.node("TopK", [kept, emit.shape_of(kept, 2, 3)], [_F32, _I64])
    at = emit.op("Transpose", emit.op("NonZero", emit.op("Greater", values, nothing(emit))), perm=[1, 0])
    score, place = (emit.op("GatherND", t, at) for t in (values, places))
    owner = emit.op("Slice", at, *(emit.constant([k]) for k in (0, 2, 1)))
    count = emit.shape_of(at, 0, 1)
    if node.flag("sort_result_descending", True):
        score, order = emit.node("TopK", [score, count], [_F32, _I64], axis=0)
        owner, place = (emit.op("Gather", t, order, axis=0) for t in (owner, place))
    columns = [emit.op("Unsqueeze", t, emit.constant([1])) for t in (place, score)]
    chosen = emit.op("Concat", owner, columns[0], axis=1)
    return chosen, emit.op("Concat", emit.cast(owner, _F32), columns[1], axis=1), count


def _turned(node: Node, emit: InferringEmitter, boxes: Tensor) -> Tensor:
    """The numbers of `_Turned` in the last axis, [images, boxes, 7], of boxes [images, boxes, 5]."""
    exact = emit.cast(boxes, _F64)
    x, y, width, height, angle = (emit.op("Gather", exact, emit.constant([k]), axis=2) for k in range(5))
    if not node.flag("clockwise", True):
        angle = emit.op("Neg", angle)
    half = emit.constant(0.5, _F64)
    halves = (emit.op("Mul", size, half) for size in (width, height))
    turn = (emit.op(op, angle) for op in ("Cos", "Sin"))
    return emit.op("Concat", x, y, *halves, *turn, emit.op("Mul", width, height), axis=2)


@dataclass(frozen=True)
class _Turned:
    """Boxes: their centers, half their sizes, the cosines and sines of their angles, and their areas."""

    x: Tensor
    y: Tensor
    width: Tensor
    height: Tensor
    cosine: Tensor
    sine: Tensor
    area: Tensor

    @classmethod
    def of(cls, emit: InferringEmitter, numbers: Tensor) -> _Turned:
        """The boxes [rows, boxes, 1] of [rows, boxes, 7]."""
        return cls(*(emit.op("Gather", numbers, emit.constant([k]), axis=2) for k in range(7)))


def _overlap(emit: InferringEmitter, one: _Turned, other: _Turned) -> Tensor:
    """What two boxes have in common as a part of what both cover, [rows, boxes]; 0 if one has no area."""
    zero = emit.constant(0, _F64)
    common = _common_area(emit, one, other)
    areas = [emit.op("Squeeze", box.area, emit.constant([2])) for box in (one, other)]
    total = emit.op("Add", *areas)
    is_some = emit.op("Greater", common, emit.op("Mul", total, emit.constant(_ROUNDING, _F64)))
    common = emit.op("Where", is_some, common, zero)
    ratio = emit.op("Div", common, emit.op("Sub", total, common))
    is_flat = emit.op("Or", *(emit.op("LessOrEqual", area, zero) for area in areas))
    return emit.cast(emit.op("Where", is_flat, zero, ratio), _F32)


def _common_area(emit: InferringEmitter, one: _Turned, other: _Turned) -> Tensor:
    """The area that two boxes have in common.

    In the axes of `one`, it is the integral, over the width of `one`, of the height between the upper and the lower
    edges of `other`, cut to the height of `one`: a sum over the four edges, in which no case needs to be told apart.
    """
    x, y = _corners(emit, one, other)
    following = emit.constant([1, 2, 3, 0])
    lengths = [emit.op("Sub", emit.op("Gather", t, following, axis=2), t) for t in (x, y)]
    width, height = (emit.op("Abs", size) for size in (one.width, one.height))
    start, end = (_cut(emit, t, width) for t in (x, emit.op("Add", x, lengths[0])))
    # The parts of an edge at which it enters and leaves the width, and how high it is there.
    parts = [_part(emit, emit.op("Sub", t, x), lengths[0]) for t in (start, end)]
    low, high = (emit.op("Add", y, emit.op("Mul", part, lengths[1])) for part in parts)
    mean = _mean_cut(emit, low, high, height)
    total = emit.op("ReduceSum", emit.op("Mul", emit.op("Sub", end, start), mean), emit.constant([2]), keepdims=0)
    return emit.op("Abs", total)


def _corners(emit: InferringEmitter, one: _Turned, other: _Turned) -> tuple[Tensor, Tensor]:
    """The corners of `other`, one after the other, in the axes of `one`: their x and y, each [rows, boxes, 4]."""

    def turned(x: Tensor, y: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
        return (
            emit.op("Sub", emit.op("Mul", x, cosine), emit.op("Mul", y, sine)),
            emit.op("Add", emit.op("Mul", x, sine), emit.op("Mul", y, cosine)),
        )

    back = emit.op("Neg", one.sine)
    center = turned(emit.op("Sub", other.x, one.x), emit.op("Sub", other.y, one.y), one.cosine, back)
    angle = turned(other.cosine, other.sine, one.cosine, back)
    right = emit.op("Mul", other.width, emit.constant([-1, 1, 1, -1], _F64))
    up = emit.op("Mul", other.height, emit.constant([-1, -1, 1, 1], _F64))
    x, y = (emit.op("Add", a, b) for a, b in zip(center, turned(right, up, *angle), strict=True))
    return x, y


def _cut(emit: InferringEmitter, numbers: Tensor, limit: Tensor) -> Tensor:
    return emit.op("Max", emit.op("Min", numbers, limit), emit.op("Neg", limit))


def _part(emit: InferringEmitter, distance: Tensor, length: Tensor) -> Tensor:
    """A distance as a part of a length, from 0 to 1; any for a length of 0."""
    zero, one = emit.constant(0, _F64), emit.constant(1, _F64)
    whole = emit.op("Where", emit.op("Equal", length, zero), one, length)
    return emit.op("Max", emit.op("Min", emit.op("Div", distance, whole), one), zero)


def _mean_cut(emit: InferringEmitter, start: Tensor, end: Tensor, limit: Tensor) -> Tensor:
    """The mean of numbers that go from `start` to `end`, cut to the limit on both sides."""
    length = emit.op("Sub", end, start)
    crossings = [_part(emit, emit.op("Sub", edge, start), length) for edge in (emit.op("Neg", limit), limit)]
    zero, one = emit.constant(0, _F64), emit.constant(1, _F64)
    parts = [zero, emit.op("Min", *crossings), emit.op("Max", *crossings), one]
    numbers = [_cut(emit, emit.op("Add", start, emit.op("Mul", part, length)), limit) for part in parts]
    pieces = [
        emit.op("Mul", emit.op("Sub", parts[k + 1], parts[k]), emit.op("Add", numbers[k], numbers[k + 1]))
        for k in range(3)
    ]
    return emit.op("Mul", emit.op("Add", emit.op("Add", pieces[0], pieces[1]), pieces[2]), emit.constant(0.5, _F64))
