"""tf.raw_ops.ResizeNearestNeighbor, ResizeBilinear, ResizeBicubic, ResizeArea, ScaleAndTranslate and CropAndResize.

Positions and weights are computed as TensorFlow's kernels compute them; ONNX's Resize rounds positions otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.special_functions import polynomial

_FLOAT = TensorProto.FLOAT
_IMAGES = ("all numbers",)
#: The least float of full precision.
_LEAST = float(np.finfo(np.float32).tiny)
#: The steps into which TensorFlow divides the way from one pixel to the next for its cubic weights.
_CUBIC_STEPS = 1024


class _Axis:
    """One spatial axis of images: the positions in them from which each pixel of the result comes."""

    def __init__(self, node: Node, images: Tensor, axis: int, emit: Emitter) -> None:
        self._emit, self.axis = emit, axis
        self._align, self.centers = (bool(node.attributes[name]) for name in ("align_corners", "half_pixel_centers"))
        if self._align and self.centers:
            raise Unsupported("it has both align_corners and half_pixel_centers; TensorFlow takes one of them")
        size = emit.int64(node["size"])
        self.before = emit.scalar(emit.op("Gather", emit.shape_of(images), emit.constant([axis])))
        self.after = emit.scalar(emit.op("Gather", size, emit.constant([axis - 1])))
        self.last = emit.op("Sub", self.before, emit.constant(1))
        before, after = (emit.cast(count, _FLOAT) for count in (self.before, self.after))
        self.scale = emit.op("Div", before, after)
        if self._align:
            one = emit.constant(1.0, _FLOAT)
            steps = emit.op("Max", emit.op("Sub", after, one), one)
            aligned = emit.op("Div", emit.op("Sub", before, one), steps)
            self.scale = emit.op("Where", emit.op("Greater", after, one), aligned, self.scale)
        self.numbers = emit.cast(emit.op("Range", emit.constant(0), self.after, emit.constant(1)), _FLOAT)

    def positions(self) -> Tensor:
        """Where each pixel comes from, with fractions."""
        emit = self._emit
        if not self.centers:
            return emit.op("Mul", self.numbers, self.scale)
        half = emit.constant(0.5, _FLOAT)
        return emit.op("Sub", emit.op("Mul", emit.op("Add", self.numbers, half), self.scale), half)

    def nearest(self) -> Tensor:
        """The pixel from which each comes."""
        emit, half = self._emit, self._emit.constant(0.5, _FLOAT)
        numbers = emit.op("Add", self.numbers, half) if self.centers else self.numbers
        places = emit.op("Mul", numbers, self.scale)
        if self._align:  # rounded, a half away from zero
            places = emit.op("Add", places, half)
        return self.bounded(emit.cast(emit.op("Floor", places), TensorProto.INT64))

    def bounded(self, places: Tensor) -> Tensor:
        """Places within the images."""
        emit = self._emit
        return emit.extreme("Max", emit.extreme("Min", places, self.last), emit.constant(0))


@handles("ResizeNearestNeighbor", to="Gather", dtypes=_IMAGES)
def resize_nearest(node: Node, emit: Emitter) -> Tensor:
    """The nearest pixel for each."""
    images = node["images"]
    for axis in (1, 2):
        images = emit.op("Gather", images, _Axis(node, node["images"], axis, emit).nearest(), axis=axis)
    return images


@handles("ResizeBilinear", to="Gather", dtypes=_IMAGES)
def resize_bilinear(node: Node, emit: Emitter) -> Tensor:
    """The weighted mean of four pixels for each."""
    images = emit.cast(node["images"], _FLOAT)
    for axis in (1, 2):
        along = _Axis(node, node["images"], axis, emit)
        places = along.positions()
        below = emit.op("Floor", places)
        weight = emit.op("Sub", places, below)
        lower, upper = (
            emit.op("Gather", images, along.bounded(emit.cast(each, TensorProto.INT64)), axis=axis)
            for each in (below, emit.op("Ceil", places))
        )
        images = emit.op("Add", lower, emit.op("Mul", emit.op("Sub", upper, lower), _along(weight, axis, emit)))
    return images


@handles("ResizeBicubic", to="Gather", dtypes=_IMAGES)
def resize_bicubic(node: Node, emit: Emitter) -> Tensor:
    """The weighted mean of sixteen pixels for each, with weights in steps as TensorFlow's table has them."""
    images = emit.cast(node["images"], _FLOAT)
    for axis in (1, 2):
        along = _Axis(node, node["images"], axis, emit)
        places, steps = along.positions(), emit.constant(float(_CUBIC_STEPS), _FLOAT)
        below = emit.op("Floor", places)
        offset = emit.op("Div", emit.op("Round", emit.op("Mul", emit.op("Sub", places, below), steps)), steps)
        first = emit.cast(below, TensorProto.INT64)
        one, factor = emit.constant(1.0, _FLOAT), -0.5 if along.centers else -0.75
        rest = emit.op("Sub", one, offset)
        weights = [
            _far_weight(offset, factor, emit),
            _near_weight(offset, factor, emit),
            _near_weight(rest, factor, emit),
            _far_weight(rest, factor, emit),
        ]
        taken = [emit.op("Add", first, emit.constant(k)) for k in (-1, 0, 1, 2)]
        if along.centers:  # pixels outside have no weight
            zero = emit.constant(0.0, _FLOAT)
            inside = [emit.op("Equal", along.bounded(place), place) for place in taken]
            weights = [emit.op("Where", is_in, w, zero) for is_in, w in zip(inside, weights, strict=True)]
            total = _sum(weights, emit)
            weights = [emit.op("Div", weight, total) for weight in weights]
        rows = [emit.op("Gather", images, along.bounded(place), axis=axis) for place in taken]
        parts = [emit.op("Mul", row, _along(w, axis, emit)) for row, w in zip(rows, weights, strict=True)]
        images = _sum(parts, emit)
    return images


def _near_weight(x: Tensor, factor: float, emit: Emitter) -> Tensor:
    """The cubic weight at a distance of up to 1."""
    two, three, one = (emit.constant(number, _FLOAT) for number in (factor + 2, factor + 3, 1.0))
    inner = emit.op("Mul", emit.op("Mul", emit.op("Sub", emit.op("Mul", two, x), three), x), x)
    return emit.op("Add", inner, one)


def _far_weight(x: Tensor, factor: float, emit: Emitter) -> Tensor:
    """The cubic weight at the distance 1 + x."""
    x = emit.op("Add", x, emit.constant(1.0, _FLOAT))
    a, five, eight, four = (emit.constant(factor * number, _FLOAT) for number in (1, 5, 8, 4))
    inner = emit.op("Mul", emit.op("Sub", emit.op("Mul", a, x), five), x)
    return emit.op("Sub", emit.op("Mul", emit.op("Add", inner, eight), x), four)


def _sum(tensors: list[Tensor], emit: Emitter) -> Tensor:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = emit.op("Add", total, tensor)
    return total


def _along(weight: Tensor, axis: int, emit: Emitter) -> Tensor:
    """Weights of an axis, to be multiplied with images."""
    return emit.op("Unsqueeze", weight, emit.constant([*range(1, 4 - axis)]))


@handles("ResizeArea", to="MatMul", dtypes=_IMAGES)
def resize_area(node: Node, emit: Emitter) -> Tensor:
    """The mean of the area that each pixel has in the images, as two products with matrices of shares."""
    if node.attributes["align_corners"]:
        raise Unsupported("its attribute align_corners = True is not converted")
    return _weighted(node["images"], [_shares(node, axis, emit) for axis in (1, 2)], emit)


def _weighted(images: Tensor, weights: Sequence[Tensor], emit: Emitter) -> Tensor:
    """Images whose rows and columns are sums of the given ones, with weights for each `[after, before]`."""
    rows, columns = weights
    by_columns = emit.op("MatMul", columns, emit.cast(images, _FLOAT))
    turned = emit.op("MatMul", rows, emit.op("Transpose", by_columns, perm=[0, 2, 1, 3]))
    return emit.op("Transpose", turned, perm=[0, 2, 1, 3])


def _shares(node: Node, axis: int, emit: Emitter) -> Tensor:
    """Which share of each pixel of the result each one of the images has, along an axis."""
    shape, size = emit.shape_of(node["images"]), emit.int64(node["size"])
    before = emit.scalar(emit.op("Gather", shape, emit.constant([axis])))
    after = emit.scalar(emit.op("Gather", size, emit.constant([axis - 1])))
    one, zero = emit.constant(1.0, _FLOAT), emit.constant(0.0, _FLOAT)
    scale = emit.op("Div", emit.cast(before, _FLOAT), emit.cast(after, _FLOAT))
    old, new = (
        emit.cast(emit.op("Range", emit.constant(0), count, emit.constant(1)), _FLOAT) for count in (before, after)
    )
    new = emit.op("Unsqueeze", new, emit.constant([1]))
    start = emit.op("Max", old, emit.op("Mul", new, scale))
    end = emit.op("Min", emit.op("Add", old, one), emit.op("Mul", emit.op("Add", new, one), scale))
    return emit.op("Div", emit.op("Max", emit.op("Sub", end, start), zero), scale)


#: Kernels of ScaleAndTranslate as polynomials: where each piece ends, and its factors, that of the highest power first.
_PIECES: dict[str, Sequence[tuple[float, tuple[float, ...]]]] = {
    "triangle": [(1, (-1, 1))],
    "keyscubic": [(1, (1.5, -2.5, 0, 1)), (2, (-0.5, 2.5, -4, 2))],
    "mitchellcubic": [(1, (7 / 6, -2, 0, 8 / 9)), (2, (-7 / 18, 2, -10 / 3, 16 / 9))],
}
#: The kernels that are no polynomials, and how far they reach.
_LANCZOS = {"lanczos1": 1.0, "lanczos3": 3.0, "lanczos5": 5.0}
_GAUSSIAN = 1.5


@handles(
    "ScaleAndTranslate",
    to="MatMul",
    dtypes=_IMAGES,
    differs="a pixel that is not finite reaches all of its rows and columns",
)
def scale_and_translate(node: Node, emit: Emitter) -> Tensor:
    """Each pixel the weighted mean of those near it, as two products with matrices of weights."""
    images = node["images"]
    if images.rank != 4:
        raise Unsupported(f"{images} is not of rank 4")
    return _weighted(images, [_kernel_weights(node, axis, emit) for axis in (1, 2)], emit)


def _kernel_weights(node: Node, axis: int, emit: Emitter) -> Tensor:
    """The weight that each pixel of the images has in each of the result, along an axis."""
    sizes, at = emit.int64(node["size"]), emit.constant(axis - 1)
    before = emit.scalar(emit.size(node["images"], axis))
    after = emit.scalar(emit.op("Gather", sizes, at))
    zero, one, half = (emit.constant(number, _FLOAT) for number in (0.0, 1.0, 0.5))
    steps = emit.op("Div", one, emit.op("Gather", node["scale"], at))
    moved = emit.op("Mul", steps, emit.op("Gather", node["translation"], at))
    stretch = emit.op("Max", steps, one) if node.attributes["antialias"] else one
    old, new = (
        emit.op("Add", emit.cast(emit.op("Range", emit.constant(0), count, emit.constant(1)), _FLOAT), half)
        for count in (before, after)
    )
    centers = emit.op("Unsqueeze", emit.op("Sub", emit.op("Mul", new, steps), moved), emit.constant([1]))
    distances = emit.op("Abs", emit.op("Div", emit.op("Sub", old, centers), stretch))
    weights = _kernel(node.attributes["kernel_type"].decode("utf-8", "replace"), distances, emit)
    total = emit.op("ReduceSum", weights, emit.constant([1]), keepdims=1)
    is_something = emit.op("GreaterOrEqual", emit.op("Abs", total), emit.constant(1000 * _LEAST, _FLOAT))
    weights = emit.op("Div", weights, emit.op("Where", is_something, total, one))
    last = emit.cast(before, _FLOAT)
    is_inside = emit.op("And", emit.op("GreaterOrEqual", centers, zero), emit.op("LessOrEqual", centers, last))
    return emit.op("Where", is_inside, weights, zero)


def _kernel(name: str, x: Tensor, emit: Emitter) -> Tensor:
    """The weight at a distance, which is not negative."""

    def number(value: float) -> Tensor:
        return emit.constant(value, _FLOAT)

    if name in _PIECES:
        made = number(0.0)
        for end, factors in reversed(_PIECES[name]):
            made = emit.op("Where", emit.op("Less", x, number(end)), polynomial(emit, factors, x), made)
        return made
    if name == "box":
        beyond = emit.op("Where", emit.op("Equal", x, number(0.5)), number(0.5), number(0.0))
        return emit.op("Where", emit.op("Less", x, number(0.5)), number(1.0), beyond)
    if name == "gaussian":
        squares = emit.op("Mul", x, x)
        made = emit.op("Exp", emit.op("Mul", squares, number(-9 / (2 * _GAUSSIAN**2))))
        return emit.op("Where", emit.op("Less", x, number(_GAUSSIAN)), made, number(0.0))
    if name not in _LANCZOS:
        raise Unsupported(f"its attribute kernel_type = {name!r} is not converted")
    radius = _LANCZOS[name]
    turn = emit.op("Mul", x, number(math.pi))
    waves = emit.op("Mul", emit.op("Sin", turn), emit.op("Sin", emit.op("Div", turn, number(radius))))
    made = emit.op("Div", emit.op("Mul", waves, number(radius)), emit.op("Mul", turn, turn))
    made = emit.op("Where", emit.op("LessOrEqual", x, number(1e-3)), number(1.0), made)
    return emit.op("Where", emit.op("LessOrEqual", x, number(radius)), made, number(0.0))


@handles("CropAndResize", to="Gather", dtypes=_IMAGES)
def crop_and_resize(node: Node, emit: Emitter) -> Tensor:
    """Boxes of images in one size; what a box has outside of the image is the extrapolation value."""
    method = node.attributes["method"]
    if method not in (b"bilinear", b"nearest"):
        raise Unsupported(f"its attribute method = {method.decode('utf-8', 'replace')!r} is not converted")
    image = emit.cast(node["image"], _FLOAT)
    shape = emit.shape_of(image)
    height, width, channels = (emit.op("Gather", shape, emit.constant([k])) for k in (1, 2, 3))
    pixels = emit.op("Reshape", image, emit.op("Concat", emit.constant([-1]), channels, axis=0))
    rows = _BoxAxis(node, 0, emit.scalar(height), emit)
    columns = _BoxAxis(node, 1, emit.scalar(width), emit)
    first = emit.op("Unsqueeze", emit.int64(node["box_ind"]), emit.constant([1, 2]))

    def taken(row: Tensor, column: Tensor) -> Tensor:
        across = emit.op("Add", emit.op("Mul", first, height), emit.op("Unsqueeze", row, emit.constant([2])))
        place = emit.op("Add", emit.op("Mul", across, width), emit.op("Unsqueeze", column, emit.constant([1])))
        return emit.op("Gather", pixels, place)

    if method == b"nearest":
        made = taken(rows.nearest, columns.nearest)
    else:
        right = emit.op("Unsqueeze", columns.weight, emit.constant([1, 3]))
        down = emit.op("Unsqueeze", rows.weight, emit.constant([2, 3]))
        lines = []
        for row in (rows.below, rows.above):
            left = taken(row, columns.below)
            lines.append(emit.op("Add", left, emit.op("Mul", emit.op("Sub", taken(row, columns.above), left), right)))
        top, bottom = lines
        made = emit.op("Add", top, emit.op("Mul", emit.op("Sub", bottom, top), down))
    inside = emit.op(
        "And",
        emit.op("Unsqueeze", rows.is_inside, emit.constant([2, 3])),
        emit.op("Unsqueeze", columns.is_inside, emit.constant([1, 3])),
    )
    return emit.op("Where", inside, made, emit.constant(float(node.attributes["extrapolation_value"]), _FLOAT))


class _BoxAxis:
    """One axis of boxes: the pixels from which each one of the result comes, `[boxes, size]`."""

    def __init__(self, node: Node, axis: int, size: Tensor, emit: Emitter) -> None:
        boxes, one = node["boxes"], emit.constant(1.0, _FLOAT)
        low, high = (emit.op("Gather", boxes, emit.constant([k]), axis=1) for k in (axis, axis + 2))
        count = emit.scalar(emit.op("Gather", emit.int64(node["crop_size"]), emit.constant([axis])))
        last = emit.op("Sub", emit.cast(size, _FLOAT), one)
        numbers = emit.cast(emit.op("Range", emit.constant(0), count, emit.constant(1)), _FLOAT)
        steps = emit.op("Max", emit.op("Sub", emit.cast(count, _FLOAT), one), one)
        scale = emit.op("Div", emit.op("Mul", emit.op("Sub", high, low), last), steps)
        spread = emit.op("Add", emit.op("Mul", low, last), emit.op("Mul", numbers, scale))
        middle = emit.op("Mul", emit.op("Mul", emit.op("Add", low, high), emit.constant(0.5, _FLOAT)), last)
        places = emit.op("Where", emit.op("Greater", count, emit.constant(1)), spread, middle)
        zero = emit.constant(0.0, _FLOAT)
        self.is_inside = emit.op("And", emit.op("GreaterOrEqual", places, zero), emit.op("LessOrEqual", places, last))
        safe = emit.op("Where", self.is_inside, places, zero)
        below = emit.op("Floor", safe)
        self.weight = emit.op("Sub", safe, below)
        self.below = emit.int64(below)
        self.above = emit.int64(emit.op("Ceil", safe))
        self.nearest = emit.int64(emit.op("Floor", emit.op("Add", safe, emit.constant(0.5, _FLOAT))))
