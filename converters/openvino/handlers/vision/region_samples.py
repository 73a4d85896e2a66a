"""What is taken from images by boxes: pixels, and points between them, along the rows and columns of regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_F32 = TensorProto.FLOAT
#: More parts of a region, or points of a part, than any model has.
TOO_MANY = 2**10
#: Regions have results [regions, rows, columns] of samples [.., rows, columns]: the axes of what is of a row and of a
#: column of the result and of its samples.
ROWS, COLUMNS, SAMPLES = (2, 4), (1, 3), (3, 4)


@dataclass(frozen=True)
class Line:
    """The samples along one axis of the image, [regions, rows, 1, samples, 1] or [regions, 1, columns, 1, samples].

    Attributes:
        places: Where they are.
        inside: Whether they count; None if all do.
    """

    places: Tensor
    inside: Tensor | None = None


class Pixels:
    """The pixels of images whose channels are in groups, each group a picture of its own.

    Args:
        emit: Receives the nodes.
        images: [batch, channels, height, width].
        groups: How many rows and columns of groups there are.
        last: Whether the groups are the last of the axes that the channels are made of, not the first.

    Attributes:
        sizes: The height and the width, as scalars.
        batch: The number of images, as a scalar.
    """

    def __init__(self, emit: Emitter, images: Tensor, groups: tuple[int, int] = (1, 1), *, last: bool = False) -> None:
        self._emit, self._groups = emit, groups
        self.sizes = tuple(emit.op("Squeeze", emit.shape_of(images, k, k + 1), emit.constant([0])) for k in (2, 3))
        self.batch = emit.op("Squeeze", emit.shape_of(images, 0, 1), emit.constant([0]))
        channels = emit.op("Div", emit.shape_of(images, 1, 2), emit.constant([groups[0] * groups[1]]))
        parts = [channels, emit.constant(groups)] if last else [emit.constant(groups), channels]
        split = emit.op("Concat", emit.shape_of(images, 0, 1), *parts, emit.shape_of(images, 2, 4), axis=0)
        order = [0, 2, 3, 4, 5, 1] if last else [0, 1, 2, 4, 5, 3]
        moved = emit.op("Transpose", emit.op("Reshape", images, split, allowzero=1), perm=order)
        flat = emit.op("Concat", emit.constant([-1]), channels, axis=0)
        self._rows = emit.op("Reshape", moved, flat)

    def at(self, images: Tensor, group: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """The pixels [.., channels] of images [regions] and of places whose axes are spread to [.., 1]."""
        emit = self._emit
        number = emit.op("Unsqueeze", images, emit.constant([1, 2, 3, 4]))
        index = emit.op("Add", emit.op("Mul", number, emit.constant(self._groups[0] * self._groups[1])), group)
        for size, place in zip(self.sizes, (row, column), strict=True):
            index = emit.op("Add", emit.op("Mul", index, size), place)
        return emit.op("Gather", self._rows, index, axis=0)

    def between(self, images: Tensor, group: Tensor, lines: Sequence[Line]) -> Tensor:
        """The pixels [.., channels] at places between four of them, which are 0 where these do not count."""
        emit, one = self._emit, self._emit.constant(1, _F32)
        corners, shares = [], []
        for line, size in zip(lines, self.sizes, strict=True):
            end = emit.op("Sub", size, emit.constant(1))
            place = line.places
            if line.inside is not None:
                place = emit.op("Where", line.inside, place, emit.constant(0, _F32))
            low = emit.op("Floor", place)
            share = emit.op("Sub", place, low)
            number = emit.int64(low)
            corners.append((number, emit.op("Min", emit.op("Add", number, emit.constant(1)), end)))
            shares.append((emit.op("Sub", one, share), share))
        made: Tensor | None = None
        for row, row_share in zip(corners[0], shares[0], strict=True):
            for column, column_share in zip(corners[1], shares[1], strict=True):
                weight = emit.op("Unsqueeze", emit.op("Mul", row_share, column_share), emit.constant([-1]))
                part = emit.op("Mul", self.at(images, group, row, column), weight)
                made = part if made is None else emit.op("Add", made, part)
        assert made is not None
        for line in lines:
            if line.inside is not None:
                there = emit.op("Unsqueeze", line.inside, emit.constant([-1]))
                made = emit.op("Where", there, made, emit.constant(0, _F32))
        return made


def spread(emit: Emitter, tensor: Tensor, axes: Sequence[int]) -> Tensor:
    """The tensor with new axes of size 1."""
    return emit.op("Unsqueeze", tensor, emit.constant(axes))


def counting(emit: Emitter, count: int | Tensor) -> Tensor:
    """0, 1, .. as floats."""
    end = emit.constant(count) if isinstance(count, int) else count
    return emit.cast(emit.op("Range", emit.constant(0), end, emit.constant(1)), _F32)


def box_columns(emit: Emitter, boxes: Tensor, count: int, first: int = 0) -> list[Tensor]:
    """Columns of boxes [regions, ..] as [regions, 1, 1]."""
    return [
        spread(emit, emit.op("Gather", boxes, emit.constant(k), axis=1), [1, 2]) for k in range(first, first + count)
    ]


def pooled_size(node: Node) -> tuple[int, int]:
    """The rows and columns of the result of each region.

    Raises:
        Unsupported: There are none, or too many.
    """
    size = node.integer("pooled_h"), node.integer("pooled_w")
    if min(size) < 1 or max(size) > TOO_MANY:
        raise Unsupported(f"pooled_h = {size[0]}, pooled_w = {size[1]}")
    return size


def check_counts(*counts: int) -> None:
    """Check the numbers of groups and parts of regions.

    Raises:
        Unsupported: One is not positive, or too large.
    """
    if min(counts) < 1 or max(counts) > TOO_MANY:
        raise Unsupported(f"a group_size or spatial_bins of {', '.join(map(str, counts))}")


def channels_first(emit: Emitter, pooled: Tensor, like: Tensor) -> Tensor:
    """[regions, rows, columns, channels] with the channels before the rows, in another tensor's type."""
    return emit.cast(emit.op("Transpose", pooled, perm=[0, 3, 1, 2]), like.dtype)
