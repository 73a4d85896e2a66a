"""Regions of images that are pooled: by windows of whole pixels, or by points, which may be moved."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.vision.region_samples import (
    COLUMNS,
    ROWS,
    SAMPLES,
    TOO_MANY,
    Line,
    Pixels,
    box_columns,
    channels_first,
    check_counts,
    counting,
    spread,
)
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.rounding import half_away

_F32 = TensorProto.FLOAT


@handles("ROIPooling-1", to="MaxRoiPool, or Gather")
def roi_pooling(node: Node, emit: Emitter) -> Tensor:
    """ROIPooling-1 and ROIPooling-2: (images, boxes [regions, (image, x0, y0, x1, y1)]).

    From the first box of the image -1 on, as Proposal has them behind its last box, results are 0. For the method
    bilinear, boxes are parts of the image, and each result is a point between pixels.
    """
    size = node.integers("output_size", []) or node.integers("output_roi", [])
    size = size or [node.integer("pooled_h"), node.integer("pooled_w")]
    node.disregard("output_roi", "pooled_h", "pooled_w")  # which say the same
    if len(size) != 2 or min(size) < 1 or max(size) > TOO_MANY:
        raise Unsupported(f"regions of the size {size[:9]}")
    boxes = emit.cast(node.ranked(1, 2, 2), _F32)
    images, is_there = _until_minus_one(emit, boxes)
    if node.choice("method", ("max", "bilinear"), "max") == "max":
        numbers = emit.op("Unsqueeze", emit.cast(images, _F32), emit.constant([1]))
        corners = emit.op("Slice", boxes, *map(emit.constant, ([1], [5], [1])))
        given = emit.op("Concat", numbers, corners, axis=1)
        scale = node.number("spatial_scale")
        pooled = emit.op("MaxRoiPool", emit.cast(node[0], _F32), given, pooled_shape=size, spatial_scale=scale)
        return emit.cast(emit.op("Where", is_there, pooled, emit.constant(0, _F32)), node[0].dtype)
    node.disregard("spatial_scale")  # boxes are parts of the image
    pixels = Pixels(emit, emit.cast(node.ranked(0, 4, 4), _F32))
    left, top, right, bottom = box_columns(emit, boxes, 4, first=1)
    lines = []
    for start, end, count, length, axes in zip(
        (top, left), (bottom, right), size, pixels.sizes, (ROWS, COLUMNS), strict=True
    ):
        place, inside = _between(emit, start, end, count, emit.op("Sub", length, emit.constant(1)))
        lines.append(Line(spread(emit, place, axes), spread(emit, inside, axes)))
    found = emit.op("Squeeze", pixels.between(images, emit.constant(0), lines), emit.constant(SAMPLES))
    return channels_first(emit, emit.op("Where", is_there, found, emit.constant(0, _F32)), node[0])


def _between(emit: Emitter, start: Tensor, end: Tensor, count: int, last: Tensor) -> tuple[Tensor, Tensor]:
    """Points [regions, count, 1] from the start to the end of parts of a line, and whether they are on the line."""
    whole = emit.cast(last, _F32)
    if count == 1:
        half = emit.constant(0.5, _F32)
        place = emit.op("Mul", emit.op("Mul", half, emit.op("Add", start, end)), whole)
    else:
        step = emit.op("Div", emit.op("Mul", emit.op("Sub", end, start), whole), emit.constant(count - 1, _F32))
        moved = emit.op("Mul", spread(emit, counting(emit, count - 1), [1]), step)
        # The last one is exactly at the end.
        place = emit.op(
            "Concat", emit.op("Add", moved, emit.op("Mul", start, whole)), emit.op("Mul", whole, end), axis=1
        )
    is_inside = emit.op("And", emit.op("GreaterOrEqual", place, emit.constant(0, _F32)),
                        emit.op("LessOrEqual", place, whole))  # fmt: skip
    return place, is_inside


@handles("PSROIPooling-1", to="Gather, ReduceSum")
def psroi_pooling(node: Node, emit: Emitter) -> Tensor:
    """PSROIPooling-1: (images, boxes [regions, (image, x0, y0, x1, y1)]). Each part of a region has its own channels.

    From the first box of the image -1 on, results are 0.
    """
    is_average = node.choice("mode", ("average", "bilinear"), "average") == "average"
    count, channels = node.integer("group_size"), node.integer("output_dim")
    bins = (node.integer("spatial_bins_y", 1), node.integer("spatial_bins_x", 1))
    groups = (count, count) if is_average else bins
    check_counts(count, *groups)
    if channels < 1 or node.ranked(0, 4, 4).dim(1) not in (None, channels * groups[0] * groups[1]):
        raise Unsupported(f"{channels} channels of {groups[0]} x {groups[1]} groups, of images {node[0]}")
    pixels = Pixels(emit, emit.cast(node[0], _F32), groups, last=is_average)
    boxes = emit.cast(node.ranked(1, 2, 2), _F32)
    images, is_there = _until_minus_one(emit, boxes)
    scale = emit.constant(node.number("spatial_scale"), _F32)
    pooled = (_windows if is_average else _points)(emit, boxes, scale, pixels, images, count, groups)
    return channels_first(emit, emit.op("Where", is_there, pooled, emit.constant(0, _F32)), node[0])


def _until_minus_one(emit: Emitter, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """The images of boxes, [regions], and [regions, 1, 1, 1] whether they are before the first of the image -1."""
    images = emit.int64(emit.op("Gather", boxes, emit.constant(0), axis=1))
    ends = emit.op("CumSum", emit.int64(emit.op("Equal", images, emit.constant(-1))), emit.constant(0))
    is_there = emit.op("Equal", ends, emit.constant(0))
    return emit.op("Where", is_there, images, emit.constant(0)), spread(emit, is_there, [1, 2, 3])


def _windows(
    emit: Emitter, boxes: Tensor, scale: Tensor, pixels: Pixels, images: Tensor, count: int, groups: tuple[int, int]
) -> Tensor:
    """The means of whole pixels."""
    left, top, right, bottom = box_columns(emit, boxes, 4, first=1)
    one = emit.constant(1)
    lines, lengths = [], []
    for low, high, size, axes in zip((top, left), (bottom, right), pixels.sizes, (ROWS, COLUMNS), strict=True):
        start = emit.op("Mul", half_away(emit, low), scale)
        end = emit.op("Mul", half_away(emit, emit.op("Add", high, emit.constant(1, _F32))), scale)
        part = emit.op("Div", emit.op("Max", emit.op("Sub", end, start), emit.constant(0.1, _F32)),
                       emit.constant(count, _F32))  # fmt: skip
        numbers = spread(emit, counting(emit, count), [1])
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
        lines.append(Line(spread(emit, place, axes), spread(emit, emit.op("Less", steps, length), axes)))
        lengths.append(spread(emit, length, axes))
    row, column = (emit.constant(range(count)), emit.constant(range(count)))
    group = emit.op("Add", emit.op("Mul", spread(emit, row, [1, 2, 3]), emit.constant(groups[1])),
                    spread(emit, column, [1, 2]))  # fmt: skip
    found = pixels.at(images, group, *(line.places for line in lines))
    inside = emit.op("And", *(line.inside for line in lines))
    numbers = emit.op("Where", spread(emit, inside, [-1]), found, emit.constant(0, _F32))
    total = emit.op("ReduceSum", numbers, emit.constant(SAMPLES), keepdims=0)
    area = emit.op("Squeeze", emit.op("Mul", *lengths), emit.constant([3]))
    return emit.op("Div", total, emit.cast(emit.op("Max", area, one), _F32))


def _points(
    emit: Emitter, boxes: Tensor, scale: Tensor, pixels: Pixels, images: Tensor, count: int, groups: tuple[int, int]
) -> Tensor:
    """The means of one point between pixels in each group; boxes are parts of the image."""
    left, top, right, bottom = (emit.op("Mul", t, scale) for t in box_columns(emit, boxes, 4, first=1))
    lines = []
    for start, end, bins, size, axes in zip(
        (top, left), (bottom, right), groups, pixels.sizes, (ROWS, COLUMNS), strict=True
    ):
        last = emit.op("Sub", emit.cast(size, _F32), emit.constant(1, _F32))
        part = emit.op("Div", emit.op("Sub", end, start), emit.constant(bins, _F32))
        numbers = counting(emit, bins)
        low, high = (emit.op("Add", start, emit.op("Mul", t, part))
                     for t in (numbers, emit.op("Add", numbers, emit.constant(1, _F32))))  # fmt: skip
        if count > 1:
            step = emit.op("Div", emit.op("Mul", emit.op("Sub", high, low), last), emit.constant(count - 1, _F32))
            moved = emit.op("Mul", spread(emit, counting(emit, count), [1]), step)
            place = emit.op("Add", moved, emit.op("Mul", low, last))
        else:
            middle = emit.op("Mul", emit.constant(0.5, _F32), emit.op("Add", low, high))
            place = emit.op("Mul", middle, last)
        inside = emit.op("And", emit.op("GreaterOrEqual", place, emit.constant(0, _F32)),
                         emit.op("LessOrEqual", place, last))  # fmt: skip
        lines.append(Line(spread(emit, place, axes), spread(emit, inside, axes)))
    row, column = (emit.constant(range(bins)) for bins in groups)
    group = emit.op("Add", emit.op("Mul", spread(emit, row, [1]), emit.constant(groups[1])), column)
    found = pixels.between(images, group, lines)
    total = emit.op("ReduceSum", found, emit.constant(SAMPLES), keepdims=0)
    return emit.op("Div", total, emit.constant(groups[0] * groups[1], _F32))


@handles("DeformablePSROIPooling-1", to="Gather, ReduceSum")
def deformable_psroi_pooling(node: Node, emit: Emitter) -> Tensor:
    """DeformablePSROIPooling-1: (images, boxes [regions, (image, x0, y0, x1, y1)], moves [regions, classes * 2, ..]).

    The channels of the result are of classes, of which each has its own moves.
    """
    node.choice("mode", ("bilinear_deformable",), "bilinear_deformable")
    count, channels = node.integer("group_size", 1), node.integer("output_dim")
    bins = (node.integer("spatial_bins_y", 1), node.integer("spatial_bins_x", 1))
    check_counts(count, *bins)
    if channels < 1 or node.ranked(0, 4, 4).dim(1) not in (None, channels * count * count):
        raise Unsupported(f"{channels} channels of {count} x {count} groups, of images {node[0]}")
    boxes = emit.cast(node.ranked(1, 2, 2), _F32)
    images, is_there = _until_minus_one(emit, boxes)
    pixels = Pixels(emit, emit.cast(node[0], _F32), (count, count), last=True)
    row, column = (spread(emit, emit.constant(range(count)), axes) for axes in ([1, 2, 3], [1, 2]))
    group = emit.op("Add", emit.op("Mul", row, emit.constant(count)), column)
    half, scale = emit.constant(0.5, _F32), emit.constant(node.number("spatial_scale"), _F32)
    left, top, right, bottom = (half_away(emit, t) for t in box_columns(emit, boxes, 4, first=1))
    classes = _moves(node, emit, count, channels)
    parts = []
    for moves in classes:
        lines = []
        for axis, (low, high, size, axes) in enumerate(
            zip((top, left), (bottom, right), pixels.sizes, (ROWS, COLUMNS), strict=True)
        ):
            start = emit.op("Sub", emit.op("Mul", low, scale), half)
            end = emit.op("Sub", emit.op("Mul", emit.op("Add", high, emit.constant(1, _F32)), scale), half)
            length = emit.op("Max", emit.op("Sub", end, start), emit.constant(0.1, _F32))
            part = emit.op("Div", length, emit.constant(count, _F32))
            within = emit.op("Div", part, emit.constant(bins[axis], _F32))
            place = emit.op("Add", emit.op("Mul", spread(emit, counting(emit, count), [1]), part), start)
            place = spread(emit, place, axes)
            if moves:
                shift = emit.op("Mul", moves[axis], spread(emit, length, axes))
                place = emit.op("Add", place, shift)
            sample = emit.op("Mul", counting(emit, bins[axis]), within)
            place = emit.op("Add", place, spread(emit, sample, axes))
            edge = emit.op("Sub", emit.cast(size, _F32), half)
            inside = emit.op("And", emit.op("GreaterOrEqual", place, emit.constant(-0.5, _F32)),
                             emit.op("LessOrEqual", place, edge))  # fmt: skip
            nearest = emit.op("Min", emit.op("Max", place, emit.constant(0, _F32)), emit.op("Sub", edge, half))
            lines.append(Line(nearest, inside))
        found = pixels.between(images, group, lines)
        total = emit.op("ReduceSum", found, emit.constant(SAMPLES), keepdims=0)
        inside = emit.cast(emit.op("And", *(line.inside for line in lines)), _F32)
        number = spread(emit, emit.op("ReduceSum", inside, emit.constant(SAMPLES), keepdims=0), [-1])
        parts.append(emit.op("Div", total, emit.op("Max", number, emit.constant(1, _F32))))
    each = channels // len(classes)
    if len(parts) > 1:
        cuts = ([[k * each], [(k + 1) * each], [3]] for k in range(len(parts)))
        parts = [emit.op("Slice", t, *map(emit.constant, cut)) for t, cut in zip(parts, cuts, strict=True)]
    pooled = emit.op("Concat", *parts, axis=3) if len(parts) > 1 else parts[0]
    return channels_first(emit, emit.op("Where", is_there, pooled, emit.constant(0, _F32)), node[0])


def _moves(node: Node, emit: Emitter, count: int, channels: int) -> list[list[Tensor]]:
    """For each class, by how much of a region its parts move down and across, [regions, rows, columns, 1, 1]."""
    given = node.optional(2)
    if given is None:
        node.disregard("part_size", "trans_std")
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
    across = [spread(emit, emit.op("Gather", moved, emit.constant(k), axis=1), SAMPLES) for k in range(number)]
    return [[across[k + 1], across[k]] for k in range(0, number, 2)]
