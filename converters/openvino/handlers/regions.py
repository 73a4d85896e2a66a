"""What is taken from images by boxes: windows and points of regions, which are averaged or of which one is taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.arithmetic import rounded_away
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor

_F32 = TensorProto.FLOAT
#: More parts of a region, or points of a part, than any model has.
_TOO_MANY = 2**10
#: Regions have results [regions, rows, columns] of samples [.., rows, columns]: the axes of what is of a row and of a
#: column of the result and of its samples.
_ROWS, _COLUMNS, _SAMPLES = (2, 4), (1, 3), (3, 4)


@dataclass(frozen=True)
class _Line:
    """The samples along one axis of the image, [regions, rows, 1, samples, 1] or [regions, 1, columns, 1, samples].

    Attributes:
        places: Where they are.
        inside: Whether they count; None if all do.
    """

    places: Tensor
    inside: Tensor | None = None


class _Pixels:
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

    def between(self, images: Tensor, group: Tensor, lines: Sequence[_Line]) -> Tensor:
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


def _spread(emit: Emitter, tensor: Tensor, axes: Sequence[int]) -> Tensor:
    return emit.op("Unsqueeze", tensor, emit.constant(axes))


def _steps(emit: Emitter, count: int | Tensor) -> Tensor:
    """0, 1, .. as floats."""
    end = emit.constant(count) if isinstance(count, int) else count
    return emit.cast(emit.op("Range", emit.constant(0), end, emit.constant(1)), _F32)


def _columns(emit: Emitter, boxes: Tensor, count: int, first: int = 0) -> list[Tensor]:
    """Columns of boxes [regions, ..] as [regions, 1, 1]."""
    return [
        _spread(emit, emit.op("Gather", boxes, emit.constant(k), axis=1), [1, 2]) for k in range(first, first + count)
    ]


def _valid(emit: Emitter, images: Tensor, pixels: _Pixels) -> Tensor:
    """The numbers of images [regions]; a negative one becomes one that is not there, which is an error."""
    number = emit.int64(images)
    return emit.op("Where", emit.op("Less", number, emit.constant(0)), pixels.batch, number)


def _pooled_size(node: Node) -> tuple[int, int]:
    size = node.integer("pooled_h"), node.integer("pooled_w")
    if min(size) < 1 or max(size) > _TOO_MANY:
        raise Unsupported(f"pooled_h = {size[0]}, pooled_w = {size[1]}")
    return size


def _channels_first(emit: Emitter, pooled: Tensor, like: Tensor) -> Tensor:
    """[regions, rows, columns, channels] with the channels before the rows, in another tensor's type."""
    return emit.cast(emit.op("Transpose", pooled, perm=[0, 3, 1, 2]), like.dtype)


@handles("ROIAlign-3", "ROIAlign-9", to="RoiAlign, or Gather, ReduceMax")
def roi_align(node: Node, emit: Emitter) -> Tensor:
    """ROIAlign-3 and ROIAlign-9: (images, boxes [regions, 4], the image of each).

    ONNX's half_pixel is OpenVINO's half_pixel_for_nn; OpenVINO's half_pixel first moves the boxes by half a pixel.
    The maximum is that of the samples, which ONNX Runtime's is not, and of 0, as in OpenVINO's kernels.
    """
    aligned = node.choice("aligned_mode", ("asymmetric", "half_pixel_for_nn", "half_pixel"), "asymmetric")
    if node.choice("mode", ("avg", "max")) == "avg":
        boxes = emit.op("Add", node[1], emit.like(0.5, node[1])) if aligned == "half_pixel" else node[1]
        return emit.op(
            "RoiAlign",
            node[0],
            boxes,
            emit.int64(node[2]),
            mode="avg",
            output_height=node.integer("pooled_h"),
            output_width=node.integer("pooled_w"),
            sampling_ratio=node.integer("sampling_ratio"),
            spatial_scale=node.number("spatial_scale"),
            coordinate_transformation_mode="output_half_pixel" if aligned == "asymmetric" else "half_pixel",
        )
    pixels = _Pixels(emit, emit.cast(node.ranked(0, 4, 4), _F32))
    boxes = emit.cast(node.ranked(1, 2, 2), _F32)
    if aligned == "half_pixel":
        boxes = emit.op("Add", boxes, emit.constant(0.5, _F32))
    boxes = emit.op("Mul", boxes, emit.constant(node.number("spatial_scale"), _F32))
    if aligned != "asymmetric":
        boxes = emit.op("Sub", boxes, emit.constant(0.5, _F32))
    left, top, right, bottom = _columns(emit, boxes, 4)
    lines = []
    for start, end, count, size, axes in zip(
        (top, left), (bottom, right), _pooled_size(node), pixels.sizes, (_ROWS, _COLUMNS), strict=True
    ):
        length = emit.op("Sub", end, start)
        if aligned == "asymmetric":
            length = emit.op("Max", length, emit.constant(1, _F32))
        places, is_sample = _samples(node, emit, start, length, count)
        lines.append(_bounded(emit, _spread(emit, places, axes), _spread(emit, is_sample, axes), size))
    found = pixels.between(_valid(emit, node[2], pixels), emit.constant(0), lines)
    best = emit.op("ReduceMax", found, emit.constant(_SAMPLES), keepdims=0)
    return _channels_first(emit, emit.op("Max", best, emit.constant(0, _F32)), node[0])


def _samples(
    node: Node, emit: Emitter, start: Tensor, length: Tensor, count: int, *, divided_last: bool = False
) -> tuple[Tensor, Tensor]:
    """The samples of the parts of lines [regions, 1, 1], [regions, parts, samples], and which of them there are.

    A `sampling_ratio` of 0 takes as many of each part as it is long, rounded up. `divided_last` is an order of
    rounding, by which a sample may be just inside of the image or not.
    """
    part = emit.op("Div", length, emit.constant(count, _F32))
    ratio = node.integer("sampling_ratio")
    if not 0 <= ratio <= _TOO_MANY:
        raise Unsupported(f"sampling_ratio = {ratio}")
    if ratio:
        numbers, most = emit.constant(ratio, _F32), emit.constant(ratio)
    else:
        numbers = emit.op("Ceil", part)
        every = emit.op("Reshape", emit.int64(numbers), emit.constant([-1]))
        most = emit.op("ReduceMax", emit.op("Concat", every, emit.constant([1]), axis=0), keepdims=0)
    steps = _steps(emit, most)
    first = emit.op("Add", start, emit.op("Mul", _spread(emit, _steps(emit, count), [1]), part))
    middles = emit.op("Add", steps, emit.constant(0.5, _F32))
    if divided_last:
        between = emit.op("Div", emit.op("Mul", middles, part), numbers)
    else:
        between = emit.op("Mul", emit.op("Div", part, numbers), middles)
    return emit.op("Add", first, between), emit.op("Expand", emit.op("Less", steps, numbers), emit.constant([1, 1, 1]))


def _bounded(emit: Emitter, places: Tensor, is_sample: Tensor, size: Tensor) -> _Line:
    """Samples up to one pixel before the image, and to its end, are taken for those at its edge."""
    length = emit.cast(size, _F32)
    inside = emit.op("And", emit.op("GreaterOrEqual", places, emit.constant(-1, _F32)),
                     emit.op("LessOrEqual", places, length))  # fmt: skip
    last = emit.op("Sub", length, emit.constant(1, _F32))
    nearest = emit.op("Min", emit.op("Max", places, emit.constant(0, _F32)), last)
    return _Line(nearest, emit.op("And", inside, is_sample))


@handles("ROIAlignRotated-15", to="Gather, ReduceSum")
def roi_align_rotated(node: Node, emit: Emitter) -> Tensor:
    """ROIAlignRotated-15: (images, boxes [regions, (center, width, height, angle)], the image of each)."""
    pixels = _Pixels(emit, emit.cast(node.ranked(0, 4, 4), _F32))
    columns = _columns(emit, emit.cast(node.ranked(1, 2, 2), _F32), 5)
    scale, half = emit.constant(node.number("spatial_scale"), _F32), emit.constant(0.5, _F32)
    x, y, width, height = (emit.op("Mul", t, scale) for t in columns[:4])
    x, y = (_spread(emit, emit.op("Sub", t, half), [3, 4]) for t in (x, y))
    angle = _spread(emit, columns[4], [3, 4])
    if node.flag("clockwise_mode"):
        angle = emit.op("Neg", angle)
    cosine, sine = emit.op("Cos", angle), emit.op("Sin", angle)
    places, are_samples = [], []
    for length, count, axes in zip((height, width), _pooled_size(node), (_ROWS, _COLUMNS), strict=True):
        start = emit.op("Neg", emit.op("Mul", length, half))
        place, is_sample = _samples(node, emit, start, length, count)
        places.append(_spread(emit, place, axes))
        are_samples.append(_spread(emit, is_sample, axes))
    down, across = places
    row = emit.op("Add", emit.op("Sub", emit.op("Mul", down, cosine), emit.op("Mul", across, sine)), y)
    column = emit.op("Add", emit.op("Add", emit.op("Mul", down, sine), emit.op("Mul", across, cosine)), x)
    is_sample = emit.op("And", *are_samples)
    lines = [_bounded(emit, t, is_sample, size) for t, size in zip((row, column), pixels.sizes, strict=True)]
    found = pixels.between(_valid(emit, node[2], pixels), emit.constant(0), lines)
    return _channels_first(emit, _mean(emit, found, is_sample), node[0])


def _mean(emit: Emitter, found: Tensor, is_sample: Tensor) -> Tensor:
    """The means [regions, rows, columns, channels] of samples; 0 where there are none."""
    total = emit.op("ReduceSum", found, emit.constant(_SAMPLES), keepdims=0)
    numbers = emit.op("ReduceSum", emit.cast(is_sample, _F32), emit.constant(_SAMPLES), keepdims=0)
    return emit.op("Div", total, emit.op("Max", _spread(emit, numbers, [-1]), emit.constant(1, _F32)))


#: The side of a region that is taken from the level 2 of a pyramid, and what is added to it in parts of this.
_CANONICAL_SIDE, _CANONICAL_LEVEL, _MARGIN = 224.0, 2.0, 1e-6


@handles("ExperimentalDetectronROIFeatureExtractor-6", to="Gather, ReduceSum, ScatterND")
def roi_features(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """ExperimentalDetectronROIFeatureExtractor-6: (boxes [regions, 4], the levels of a pyramid, each [1, ..]).

    Each region is taken from the level that fits its size. Those of no area are 0.
    """
    given = emit.cast(node.ranked(0, 2, 2), _F32)
    count, scales = node.integer("output_size"), node.integers("pyramid_scales")
    levels = [node.ranked(k, 4, 4) for k in range(1, max(len(node.inputs), 2))]
    _check_counts(count)
    if len(scales) != len(levels) or min(scales) < 1:
        raise Unsupported(f"{len(levels)} levels, of the scales {scales[:9]}")
    fitting = _fitting_level(emit, given, len(levels))
    regions = emit.shape_of(given, 0, 1)
    numbers = emit.op("Range", emit.constant(0), emit.op("Squeeze", regions, emit.constant([0])), emit.constant(1))
    shape = emit.op("Concat", regions, emit.constant([count, count]), emit.shape_of(levels[0], 1, 2), axis=0)
    made = emit.op("Expand", emit.constant(0, _F32), shape)
    for k, (level, scale) in enumerate(zip(levels, scales, strict=True)):
        theirs = emit.op("Compress", numbers, emit.op("Equal", fitting, emit.constant(k)), axis=0)
        boxes = emit.op("Gather", given, theirs, axis=0)
        scaled = emit.op("Mul", boxes, emit.constant(np.float32(1) / np.float32(scale), _F32))
        pooled = _pooled_level(node, emit, level, scaled, count)
        made = emit.op("ScatterND", made, _spread(emit, theirs, [1]), pooled)
    return _channels_first(emit, made, levels[0]), node[0]


def _fitting_level(emit: Emitter, boxes: Tensor, count: int) -> Tensor:
    """The level of each box, [regions]; that behind the last one for a box of no area."""
    left, top, right, bottom = (emit.op("Gather", boxes, emit.constant(k), axis=1) for k in range(4))
    area = emit.op("Mul", emit.op("Sub", right, left), emit.op("Sub", bottom, top))
    is_box = emit.op("Greater", area, emit.constant(0, _F32))
    side = emit.op("Sqrt", emit.op("Where", is_box, area, emit.constant(1, _F32)))
    side = emit.op("Add", emit.op("Div", side, emit.constant(_CANONICAL_SIDE, _F32)), emit.constant(_MARGIN, _F32))
    # In double, whose quotient of logarithms is the nearest float.
    exponent = emit.op("Log", emit.cast(side, TensorProto.DOUBLE))
    exponent = emit.cast(emit.op("Div", exponent, emit.like(math.log(2), exponent)), _F32)
    level = emit.op("Floor", emit.op("Add", exponent, emit.constant(_CANONICAL_LEVEL, _F32)))
    level = emit.op("Max", emit.op("Min", level, emit.constant(count - 1, _F32)), emit.constant(0, _F32))
    return emit.int64(emit.op("Where", is_box, level, emit.constant(count, _F32)))


def _pooled_level(node: Node, emit: Emitter, level: Tensor, boxes: Tensor, count: int) -> Tensor:
    """The means [regions, rows, columns, channels] of regions of one image."""
    if node.flag("aligned", False):
        boxes = emit.op("Sub", boxes, emit.constant(0.5, _F32))
    pixels = _Pixels(emit, emit.cast(level, _F32))
    left, top, right, bottom = _columns(emit, boxes, 4)
    lines, are_samples = [], []
    for start, end, size, axes in zip((top, left), (bottom, right), pixels.sizes, (_ROWS, _COLUMNS), strict=True):
        length = emit.op("Max", emit.op("Sub", end, start), emit.constant(1, _F32))
        places, is_sample = _samples(node, emit, start, length, count, divided_last=True)
        are_samples.append(_spread(emit, is_sample, axes))
        lines.append(_bounded(emit, _spread(emit, places, axes), are_samples[-1], size))
    first = emit.op("Expand", emit.constant(0), emit.shape_of(boxes, 0, 1))
    return _mean(emit, pixels.between(first, emit.constant(0), lines), emit.op("And", *are_samples))


@handles("PSROIPooling-1", to="Gather, ReduceSum")
def psroi_pooling(node: Node, emit: Emitter) -> Tensor:
    """PSROIPooling-1: (images, boxes [regions, (image, x0, y0, x1, y1)]). Each part of a region has its own channels.

    From the first box of the image -1 on, results are 0.
    """
    is_average = node.choice("mode", ("average", "bilinear"), "average") == "average"
    count, channels = node.integer("group_size"), node.integer("output_dim")
    bins = (node.integer("spatial_bins_y", 1), node.integer("spatial_bins_x", 1))
    groups = (count, count) if is_average else bins
    _check_counts(count, *groups)
    if channels < 1 or node.ranked(0, 4, 4).dim(1) not in (None, channels * groups[0] * groups[1]):
        raise Unsupported(f"{channels} channels of {groups[0]} x {groups[1]} groups, of images {node[0]}")
    pixels = _Pixels(emit, emit.cast(node[0], _F32), groups, last=is_average)
    boxes = emit.cast(node.ranked(1, 2, 2), _F32)
    images, is_there = _until_minus_one(emit, boxes)
    scale = emit.constant(node.number("spatial_scale"), _F32)
    pooled = (_windows if is_average else _points)(emit, boxes, scale, pixels, images, count, groups)
    return _channels_first(emit, emit.op("Where", is_there, pooled, emit.constant(0, _F32)), node[0])


def _check_counts(*counts: int) -> None:
    if min(counts) < 1 or max(counts) > _TOO_MANY:
        raise Unsupported(f"a group_size or spatial_bins of {', '.join(map(str, counts))}")


def _until_minus_one(emit: Emitter, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """The images of boxes, [regions], and [regions, 1, 1, 1] whether they are before the first of the image -1."""
    images = emit.int64(emit.op("Gather", boxes, emit.constant(0), axis=1))
    ends = emit.op("CumSum", emit.int64(emit.op("Equal", images, emit.constant(-1))), emit.constant(0))
    is_there = emit.op("Equal", ends, emit.constant(0))
    return emit.op("Where", is_there, images, emit.constant(0)), _spread(emit, is_there, [1, 2, 3])


def _windows(
    emit: Emitter, boxes: Tensor, scale: Tensor, pixels: _Pixels, images: Tensor, count: int, groups: tuple[int, int]
) -> Tensor:
    """The means of whole pixels."""
    left, top, right, bottom = _columns(emit, boxes, 4, first=1)
    one = emit.constant(1)
    lines, lengths = [], []
    for low, high, size, axes in zip((top, left), (bottom, right), pixels.sizes, (_ROWS, _COLUMNS), strict=True):
        start = emit.op("Mul", rounded_away(emit, low), scale)
        end = emit.op("Mul", rounded_away(emit, emit.op("Add", high, emit.constant(1, _F32))), scale)
        part = emit.op("Div", emit.op("Max", emit.op("Sub", end, start), emit.constant(0.1, _F32)),
                       emit.constant(count, _F32))  # fmt: skip
        numbers = _spread(emit, _steps(emit, count), [1])
        edges = []
        for op, number in (("Floor", numbers), ("Ceil", emit.op("Add", numbers, emit.constant(1, _F32)))):
            edge = emit.op(op, emit.op("Add", emit.op("Mul", number, part), start))
            bounded = emit.op("Min", emit.op("Max", edge, emit.constant(0, _F32)), emit.cast(size, _F32))
            edges.append(emit.int64(bounded))
        length = emit.op("Sub", edges[1], edges[0])
        flat = emit.op("Reshape", length, emit.constant([-1]))
        most = emit.op("ReduceMax", emit.op("Concat", flat, emit.constant([1]), axis=0), keepdims=0)
        steps = emit.op("Range", emit.constant(0), most, one)
        place = emit.op("Min", emit.op("Add", edges[0], steps), emit.op("Sub", size, one))
        lines.append(_Line(_spread(emit, place, axes), _spread(emit, emit.op("Less", steps, length), axes)))
        lengths.append(_spread(emit, length, axes))
    row, column = (emit.constant(range(count)), emit.constant(range(count)))
    group = emit.op("Add", emit.op("Mul", _spread(emit, row, [1, 2, 3]), emit.constant(groups[1])),
                    _spread(emit, column, [1, 2]))  # fmt: skip
    found = pixels.at(images, group, *(line.places for line in lines))
    inside = emit.op("And", *(line.inside for line in lines))
    numbers = emit.op("Where", _spread(emit, inside, [-1]), found, emit.constant(0, _F32))
    total = emit.op("ReduceSum", numbers, emit.constant(_SAMPLES), keepdims=0)
    area = emit.op("Squeeze", emit.op("Mul", *lengths), emit.constant([3]))
    return emit.op("Div", total, emit.cast(emit.op("Max", area, one), _F32))


def _points(
    emit: Emitter, boxes: Tensor, scale: Tensor, pixels: _Pixels, images: Tensor, count: int, groups: tuple[int, int]
) -> Tensor:
    """The means of one point between pixels in each group; boxes are parts of the image."""
    left, top, right, bottom = (emit.op("Mul", t, scale) for t in _columns(emit, boxes, 4, first=1))
    lines = []
    for start, end, bins, size, axes in zip(
        (top, left), (bottom, right), groups, pixels.sizes, (_ROWS, _COLUMNS), strict=True
    ):
        last = emit.op("Sub", emit.cast(size, _F32), emit.constant(1, _F32))
        part = emit.op("Div", emit.op("Sub", end, start), emit.constant(bins, _F32))
        numbers = _steps(emit, bins)
        low, high = (emit.op("Add", start, emit.op("Mul", t, part))
                     for t in (numbers, emit.op("Add", numbers, emit.constant(1, _F32))))  # fmt: skip
        if count > 1:
            step = emit.op("Div", emit.op("Mul", emit.op("Sub", high, low), last), emit.constant(count - 1, _F32))
            moved = emit.op("Mul", _spread(emit, _steps(emit, count), [1]), step)
            place = emit.op("Add", moved, emit.op("Mul", low, last))
        else:
            middle = emit.op("Mul", emit.constant(0.5, _F32), emit.op("Add", low, high))
            place = emit.op("Mul", middle, last)
        inside = emit.op("And", emit.op("GreaterOrEqual", place, emit.constant(0, _F32)),
                         emit.op("LessOrEqual", place, last))  # fmt: skip
        lines.append(_Line(_spread(emit, place, axes), _spread(emit, inside, axes)))
    row, column = (emit.constant(range(bins)) for bins in groups)
    group = emit.op("Add", emit.op("Mul", _spread(emit, row, [1]), emit.constant(groups[1])), column)
    found = pixels.between(images, group, lines)
    total = emit.op("ReduceSum", found, emit.constant(_SAMPLES), keepdims=0)
    return emit.op("Div", total, emit.constant(groups[0] * groups[1], _F32))


@handles("DeformablePSROIPooling-1", to="Gather, ReduceSum")
def deformable_psroi_pooling(node: Node, emit: Emitter) -> Tensor:
    """DeformablePSROIPooling-1: (images, boxes [regions, (image, x0, y0, x1, y1)], moves [regions, classes * 2, ..]).

    The channels of the result are of classes, of which each has its own moves.
    """
    node.choice("mode", ("bilinear_deformable",), "bilinear_deformable")
    count, channels = node.integer("group_size", 1), node.integer("output_dim")
    bins = (node.integer("spatial_bins_y", 1), node.integer("spatial_bins_x", 1))
    _check_counts(count, *bins)
    if channels < 1 or node.ranked(0, 4, 4).dim(1) not in (None, channels * count * count):
        raise Unsupported(f"{channels} channels of {count} x {count} groups, of images {node[0]}")
    boxes = emit.cast(node.ranked(1, 2, 2), _F32)
    images, is_there = _until_minus_one(emit, boxes)
    pixels = _Pixels(emit, emit.cast(node[0], _F32), (count, count), last=True)
    row, column = (_spread(emit, emit.constant(range(count)), axes) for axes in ([1, 2, 3], [1, 2]))
    group = emit.op("Add", emit.op("Mul", row, emit.constant(count)), column)
    half, scale = emit.constant(0.5, _F32), emit.constant(node.number("spatial_scale"), _F32)
    left, top, right, bottom = (rounded_away(emit, t) for t in _columns(emit, boxes, 4, first=1))
    classes = _moves(node, emit, count, channels)
    parts = []
    for moves in classes:
        lines = []
        for axis, (low, high, size, axes) in enumerate(
            zip((top, left), (bottom, right), pixels.sizes, (_ROWS, _COLUMNS), strict=True)
        ):
            start = emit.op("Sub", emit.op("Mul", low, scale), half)
            end = emit.op("Sub", emit.op("Mul", emit.op("Add", high, emit.constant(1, _F32)), scale), half)
            length = emit.op("Max", emit.op("Sub", end, start), emit.constant(0.1, _F32))
            part = emit.op("Div", length, emit.constant(count, _F32))
            within = emit.op("Div", part, emit.constant(bins[axis], _F32))
            place = emit.op("Add", emit.op("Mul", _spread(emit, _steps(emit, count), [1]), part), start)
            place = _spread(emit, place, axes)
            if moves:
                shift = emit.op("Mul", moves[axis], _spread(emit, length, axes))
                place = emit.op("Add", place, shift)
            sample = emit.op("Mul", _steps(emit, bins[axis]), within)
            place = emit.op("Add", place, _spread(emit, sample, axes))
            edge = emit.op("Sub", emit.cast(size, _F32), half)
            inside = emit.op("And", emit.op("GreaterOrEqual", place, emit.constant(-0.5, _F32)),
                             emit.op("LessOrEqual", place, edge))  # fmt: skip
            nearest = emit.op("Min", emit.op("Max", place, emit.constant(0, _F32)), emit.op("Sub", edge, half))
            lines.append(_Line(nearest, inside))
        found = pixels.between(images, group, lines)
        total = emit.op("ReduceSum", found, emit.constant(_SAMPLES), keepdims=0)
        inside = emit.cast(emit.op("And", *(line.inside for line in lines)), _F32)
        number = _spread(emit, emit.op("ReduceSum", inside, emit.constant(_SAMPLES), keepdims=0), [-1])
        parts.append(emit.op("Div", total, emit.op("Max", number, emit.constant(1, _F32))))
    each = channels // len(classes)
    if len(parts) > 1:
        cuts = ([[k * each], [(k + 1) * each], [3]] for k in range(len(parts)))
        parts = [emit.op("Slice", t, *map(emit.constant, cut)) for t, cut in zip(parts, cuts, strict=True)]
    pooled = emit.op("Concat", *parts, axis=3) if len(parts) > 1 else parts[0]
    return _channels_first(emit, emit.op("Where", is_there, pooled, emit.constant(0, _F32)), node[0])


def _moves(node: Node, emit: Emitter, count: int, channels: int) -> list[list[Tensor]]:
    """For each class, by how much of a region its parts move down and across, [regions, rows, columns, 1, 1]."""
    given = node.optional(2)
    if given is None:
        return [[]]
    size, factor = node.integer("part_size", 1), emit.constant(node.number("trans_std", 1), _F32)
    number = node.ranked(2, 4, 4).dim(1)
    if number is None or number < 2 or number % 2 or channels % (number // 2) or any(
        given.dim(axis) not in (None, size) for axis in (2, 3)
    ):  # fmt: skip
        raise Unsupported(f"moves {given} of {channels} channels, part_size = {size}")
    places = emit.constant([k * size // count for k in range(count)])
    moved = emit.op("Mul", emit.cast(given, _F32), factor)
    for axis in (2, 3):
        moved = emit.op("Gather", moved, places, axis=axis)
    across = [_spread(emit, emit.op("Gather", moved, emit.constant(k), axis=1), _SAMPLES) for k in range(number)]
    return [[across[k + 1], across[k]] for k in range(0, number, 2)]
