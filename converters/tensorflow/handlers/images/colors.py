"""tf.raw_ops.RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation and AdjustContrastv2: colors of images, channels last."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import HALF_FLOATS

_FLOAT = TensorProto.FLOAT
_FLOATS = ("float16", "bfloat16", "float", "double")
#: How a color is made up along the circle of hues: for each sixth, which of v, p, q, t is red, green and blue.
_SIXTHS = ("vtp", "qvp", "pvt", "pqv", "tpv", "vpq")


@handles("RGBToHSV", to="Where", dtypes=_FLOATS)
def rgb_to_hsv(node: Node, emit: Emitter) -> Tensor:
    """Hue, saturation and value, each from 0 to 1."""
    images = _wide(node["images"], emit)
    return emit.cast(emit.op("Concat", *_hsv(images, emit), axis=-1), node["images"].dtype)


@handles("HSVToRGB", to="Where", dtypes=_FLOATS)
def hsv_to_rgb(node: Node, emit: Emitter) -> Tensor:
    """Red, green and blue, of a hue that may be beyond 1."""
    hue, saturation, value = _channels(_wide(node["images"], emit), emit)
    return emit.cast(_rgb(hue, saturation, value, emit), node["images"].dtype)


@handles("AdjustHue", to="Where", dtypes=("float16", "float"))
def adjust_hue(node: Node, emit: Emitter) -> Tensor:
    """The hue turned by a part of the circle."""
    hue, saturation, value = _hsv(_wide(node["images"], emit), emit)
    hue = emit.op("Add", hue, emit.cast(node["delta"], _FLOAT))
    return emit.cast(_rgb(hue, saturation, value, emit), node["images"].dtype)


@handles("AdjustSaturation", to="Where", dtypes=("float16", "float"))
def adjust_saturation(node: Node, emit: Emitter) -> Tensor:
    """The saturation times a factor, at most 1."""
    hue, saturation, value = _hsv(_wide(node["images"], emit), emit)
    scaled = emit.op("Mul", saturation, emit.cast(node["scale"], _FLOAT))
    zero, one = emit.constant(0.0, _FLOAT), emit.constant(1.0, _FLOAT)
    scaled = emit.op("Max", emit.op("Min", scaled, one), zero)
    return emit.cast(_rgb(hue, scaled, value, emit), node["images"].dtype)


@handles("AdjustContrastv2", to="ReduceMean", dtypes=("float16", "float"))
def adjust_contrast(node: Node, emit: Emitter) -> Tensor:
    """Each pixel's distance from the mean of its channel, times a factor."""
    images = emit.cast(node["images"], _FLOAT)
    mean = emit.op("ReduceMean", images, emit.constant([-3, -2]), keepdims=1)
    factor = emit.cast(node["contrast_factor"], _FLOAT)
    made = emit.op("Add", emit.op("Mul", emit.op("Sub", images, mean), factor), mean)
    return emit.cast(made, node["images"].dtype)


def _wide(images: Tensor, emit: Emitter) -> Tensor:
    return emit.cast(images, _FLOAT) if images.dtype in HALF_FLOATS else images


def _channels(images: Tensor, emit: Emitter) -> list[Tensor]:
    return [emit.op("Gather", images, emit.constant([k]), axis=-1) for k in range(3)]


def _hsv(images: Tensor, emit: Emitter) -> tuple[Tensor, Tensor, Tensor]:
    """Hue, saturation and value, each with a last dimension of 1."""
    red, green, blue = _channels(images, emit)
    value = emit.op("Max", emit.op("Max", red, green), blue)
    span = emit.op("Sub", value, emit.op("Min", emit.op("Min", red, green), blue))
    zero, one = emit.like(0, images), emit.like(1, images)
    has_value, has_span = (emit.op("Greater", each, zero) for each in (value, span))
    saturation = emit.op("Where", has_value, emit.op("Div", span, emit.op("Where", has_value, value, one)), zero)
    sixth = emit.op("Div", emit.like(1 / 6, images), emit.op("Where", has_span, span, one))

    def part(first: Tensor, second: Tensor, start: int) -> Tensor:
        along = emit.op("Mul", sixth, emit.op("Sub", first, second))
        return emit.op("Add", along, emit.like(start / 6, images)) if start else along

    is_red, is_green = (emit.op("Equal", each, value) for each in (red, green))
    others = emit.op("Where", is_green, part(blue, red, 2), part(red, green, 4))
    hue = emit.op("Where", is_red, part(green, blue, 0), others)
    hue = emit.op("Where", has_span, hue, zero)
    hue = emit.op("Where", emit.op("Less", hue, zero), emit.op("Add", hue, one), hue)
    return hue, saturation, value


def _rgb(hue: Tensor, saturation: Tensor, value: Tensor, emit: Emitter) -> Tensor:
    """Red, green and blue along the last dimension."""
    one, six = emit.like(1, value), emit.like(6, value)
    turns = emit.op("Mul", emit.op("Sub", hue, emit.op("Floor", hue)), six)
    whole = emit.op("Floor", turns)
    rest = emit.op("Sub", turns, whole)
    p = emit.op("Mul", value, emit.op("Sub", one, saturation))
    q = emit.op("Mul", value, emit.op("Sub", one, emit.op("Mul", saturation, rest)))
    t = emit.op("Mul", value, emit.op("Sub", one, emit.op("Mul", saturation, emit.op("Sub", one, rest))))
    parts = {"v": value, "p": p, "q": q, "t": t}
    channels = []
    for channel in range(3):
        made = parts[_SIXTHS[0][channel]]
        for k, letters in enumerate(_SIXTHS[1:], 1):
            is_here = emit.op("GreaterOrEqual", whole, emit.like(k, value))
            is_last = emit.op("GreaterOrEqual", whole, emit.like(6, value))  # a rounded full turn
            is_here = emit.op("And", is_here, emit.op("Not", is_last))
            made = emit.op("Where", is_here, parts[letters[channel]], made)
        channels.append(made)
    return emit.op("Concat", *channels, axis=-1)
