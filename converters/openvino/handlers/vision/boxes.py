"""The overlap of boxes, for operators that cannot use ONNX's NonMaxSuppression."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


@dataclass(frozen=True)
class Box:
    """The corners of boxes, a tensor for each number."""

    x0: Tensor
    y0: Tensor
    x1: Tensor
    y1: Tensor

    @classmethod
    def of(cls, emit: Emitter, corners: Tensor, axis: int | None = None) -> Box:
        """The corners [..., 4], with a new axis of size 1 at `axis` if it is given."""
        found = [emit.op("Gather", corners, emit.constant(k), axis=corners.rank - 1) for k in range(4)]
        return cls(*(found if axis is None else (emit.op("Unsqueeze", t, emit.constant([axis])) for t in found)))

    def area(self, emit: Emitter, offset: float) -> Tensor:
        """The area; `offset` is added to the sizes."""
        return emit.op("Mul", _length(emit, self.x0, self.x1, offset), _length(emit, self.y0, self.y1, offset))


def _length(emit: Emitter, low: Tensor, high: Tensor, offset: float) -> Tensor:
    size = emit.op("Sub", high, low)
    return emit.op("Add", size, emit.like(offset, size)) if offset else size


def overlap(
    emit: Emitter, one: Box, other: Box, offset: float, *, flat: bool = False, touching: bool = False
) -> Tensor:
    """What boxes have in common as a part of what both cover.

    Args:
        emit: Receives the nodes.
        one: Boxes.
        other: Other boxes.
        offset: What is added to sizes: 1 where corners are pixels within the boxes, else 0.
        flat: Whether a box with its corners the wrong way round has area 0, and only boxes that touch have something
            in common.
        touching: Whether only boxes that touch have something in common. With neither, boxes whose areas are not
            positive have nothing in common with any.
    """
    low = (emit.op("Max", one.x0, other.x0), emit.op("Max", one.y0, other.y0))
    high = (emit.op("Min", one.x1, other.x1), emit.op("Min", one.y1, other.y1))
    sizes = [_length(emit, a, b, offset) for a, b in zip(low, high, strict=True)]
    zero = emit.like(0, sizes[0])
    areas = [box.area(emit, offset) for box in (one, other)]
    if flat:
        pairs = zip((one, other), areas, strict=True)
        areas = [emit.op("Where", _is_wrong(emit, box), zero, area) for box, area in pairs]
    else:
        sizes = [emit.op("Max", size, zero) for size in sizes]
    common = emit.op("Mul", *sizes)
    ratio = emit.op("Div", common, emit.op("Sub", emit.op("Add", *areas), common))
    if flat or touching:
        edges = ((other.x0, one.x1), (one.x0, other.x1), (other.y0, one.y1), (one.y0, other.y1))
        conditions = [emit.op("Greater", a, b) for a, b in edges]
    else:
        conditions = [emit.op("LessOrEqual", area, zero) for area in areas]
    return emit.op("Where", _any(emit, conditions), zero, ratio)


def _is_wrong(emit: Emitter, box: Box) -> Tensor:
    return emit.op("Or", emit.op("Less", box.x1, box.x0), emit.op("Less", box.y1, box.y0))


def _any(emit: Emitter, conditions: list[Tensor]) -> Tensor:
    made = conditions[0]
    for condition in conditions[1:]:
        made = emit.op("Or", made, condition)
    return made
