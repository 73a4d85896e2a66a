"""Regions of images by points between the pixels, of which the mean or the largest is taken."""

from __future__ import annotations

import math

import numpy as np
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
    pooled_size,
    spread,
)
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_F32 = TensorProto.FLOAT


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
    pixels = Pixels(emit, emit.cast(node.ranked(0, 4, 4), _F32))
    boxes = emit.cast(node.ranked(1, 2, 2), _F32)
    if aligned == "half_pixel":
        boxes = emit.op("Add", boxes, emit.constant(0.5, _F32))
    boxes = emit.op("Mul", boxes, emit.constant(node.number("spatial_scale"), _F32))
    if aligned != "asymmetric":
        boxes = emit.op("Sub", boxes, emit.constant(0.5, _F32))
    left, top, right, bottom = box_columns(emit, boxes, 4)
    lines = []
    for start, end, count, size, axes in zip(
        (top, left), (bottom, right), pooled_size(node), pixels.sizes, (ROWS, COLUMNS), strict=True
    ):
        length = emit.op("Sub", end, start)
        if aligned == "asymmetric":
            length = emit.op("Max", length, emit.constant(1, _F32))
        places, is_sample = _samples(node, emit, start, length, count)
        lines.append(_bounded(emit, spread(emit, places, axes), spread(emit, is_sample, axes), size))
    found = pixels.between(_valid(emit, node[2], pixels), emit.constant(0), lines)
    best = emit.op("ReduceMax", found, emit.constant(SAMPLES), keepdims=0)
    return channels_first(emit, emit.op("Max", best, emit.constant(0, _F32)), node[0])


def _valid(emit: Emitter, images: Tensor, pixels: Pixels) -> Tensor:
    """The numbers of images [regions]; a negative one becomes one that is not there, which is an error."""
    number = emit.int64(images)
    return emit.op("Where", emit.op("Less", number, emit.constant(0)), pixels.batch, number)


def _samples(
    node: Node, emit: Emitter, start: Tensor, length: Tensor, count: int, *, divided_last: bool = False
) -> tuple[Tensor, Tensor]:
    """The samples of the parts of lines [regions, 1, 1], [regions, parts, samples], and which of them there are.

    A `sampling_ratio` of 0 takes as many of each part as it is long, rounded up. `divided_last` is an order of
    rounding, by which a sample may be just inside of the image or not.
    """
    part = emit.op("Div", length, emit.constant(count, _F32))
    ratio = node.integer("sampling_ratio")
    if not 0 <= ratio <= TOO_MANY:
        raise Unsupported(f"sampling_ratio = {ratio}")
    if ratio:
        numbers, most = emit.constant(ratio, _F32), emit.constant(ratio)
    else:
        numbers = emit.op("Ceil", part)
        every = emit.op("Reshape", emit.int64(numbers), emit.constant([-1]))
        most = emit.op("ReduceMax", emit.op("Concat", every, emit.constant([1]), axis=0), keepdims=0)
    steps = counting(emit, most)
    first = emit.op("Add", start, emit.op("Mul", spread(emit, counting(emit, count), [1]), part))
    middles = emit.op("Add", steps, emit.constant(0.5, _F32))
    if divided_last:
        between = emit.op("Div", emit.op("Mul", middles, part), numbers)
    else:
        between = emit.op("Mul", emit.op("Div", part, numbers), middles)
    return emit.op("Add", first, between), emit.op("Expand", emit.op("Less", steps, numbers), emit.constant([1, 1, 1]))


def _bounded(emit: Emitter, places: Tensor, is_sample: Tensor, size: Tensor) -> Line:
    """Samples up to one pixel before the image, and to its end, are taken for those at its edge."""
    length = emit.cast(size, _F32)
    inside = emit.op("And", emit.op("GreaterOrEqual", places, emit.constant(-1, _F32)),
                     emit.op("LessOrEqual", places, length))  # fmt: skip
    last = emit.op("Sub", length, emit.constant(1, _F32))
    nearest = emit.op("Min", emit.op("Max", places, emit.constant(0, _F32)), last)
    return Line(nearest, emit.op("And", inside, is_sample))


@handles("ROIAlignRotated-15", to="Gather, ReduceSum")
def roi_align_rotated(node: Node, emit: Emitter) -> Tensor:
    """ROIAlignRotated-15: (images, boxes [regions, (center, width, height, angle)], the image of each)."""
    pixels = Pixels(emit, emit.cast(node.ranked(0, 4, 4), _F32))
    columns = box_columns(emit, emit.cast(node.ranked(1, 2, 2), _F32), 5)
    scale, half = emit.constant(node.number("spatial_scale"), _F32), emit.constant(0.5, _F32)
    x, y, width, height = (emit.op("Mul", t, scale) for t in columns[:4])
    x, y = (spread(emit, emit.op("Sub", t, half), [3, 4]) for t in (x, y))
    angle = spread(emit, columns[4], [3, 4])
    if node.flag("clockwise_mode"):
        angle = emit.op("Neg", angle)
    cosine, sine = emit.op("Cos", angle), emit.op("Sin", angle)
    places, are_samples = [], []
    for length, count, axes in zip((height, width), pooled_size(node), (ROWS, COLUMNS), strict=True):
        start = emit.op("Neg", emit.op("Mul", length, half))
        place, is_sample = _samples(node, emit, start, length, count)
        places.append(spread(emit, place, axes))
        are_samples.append(spread(emit, is_sample, axes))
    down, across = places
    row = emit.op("Add", emit.op("Sub", emit.op("Mul", down, cosine), emit.op("Mul", across, sine)), y)
    column = emit.op("Add", emit.op("Add", emit.op("Mul", down, sine), emit.op("Mul", across, cosine)), x)
    is_sample = emit.op("And", *are_samples)
    lines = [_bounded(emit, t, is_sample, size) for t, size in zip((row, column), pixels.sizes, strict=True)]
    found = pixels.between(_valid(emit, node[2], pixels), emit.constant(0), lines)
    return channels_first(emit, _mean(emit, found, is_sample), node[0])


def _mean(emit: Emitter, found: Tensor, is_sample: Tensor) -> Tensor:
    """The means [regions, rows, columns, channels] of samples; 0 where there are none."""
    total = emit.op("ReduceSum", found, emit.constant(SAMPLES), keepdims=0)
    numbers = emit.op("ReduceSum", emit.cast(is_sample, _F32), emit.constant(SAMPLES), keepdims=0)
    return emit.op("Div", total, emit.op("Max", spread(emit, numbers, [-1]), emit.constant(1, _F32)))


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
    check_counts(count)
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
        made = emit.op("ScatterND", made, spread(emit, theirs, [1]), pooled)
    return channels_first(emit, made, levels[0]), node[0]


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
    pixels = Pixels(emit, emit.cast(level, _F32))
    left, top, right, bottom = box_columns(emit, boxes, 4)
    lines, are_samples = [], []
    for start, end, size, axes in zip((top, left), (bottom, right), pixels.sizes, (ROWS, COLUMNS), strict=True):
        length = emit.op("Max", emit.op("Sub", end, start), emit.constant(1, _F32))
        places, is_sample = _samples(node, emit, start, length, count, divided_last=True)
        are_samples.append(spread(emit, is_sample, axes))
        lines.append(_bounded(emit, spread(emit, places, axes), are_samples[-1], size))
    first = emit.op("Expand", emit.constant(0), emit.shape_of(boxes, 0, 1))
    return _mean(emit, pixels.between(first, emit.constant(0), lines), emit.op("And", *are_samples))
