"""tf.raw_ops.FakeQuantWithMinMax* and QuantizeAndDequantizeV2, V3 and V4: numbers rounded to a grid of few bits."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import numpy_dtype


@handles("FakeQuantWithMinMaxArgs", to="Floor", dtypes=("float",))
def fake_quant_args(node: Node, emit: Emitter) -> Tensor:
    """The range is constant."""
    low, high = (emit.constant(node.attributes[name], TensorProto.FLOAT) for name in ("min", "max"))
    return _quantized(node, low, high, emit)


@handles("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel", to="Floor", dtypes=("float",))
def fake_quant_vars(node: Node, emit: Emitter) -> Tensor:
    """The range is an input; everything is 0 if both its ends are."""
    low, high = node["min"], node["max"]
    zero = emit.like(0, low)
    no_range = emit.op("And", emit.op("Equal", low, zero), emit.op("Equal", high, zero))
    return emit.op("Where", no_range, zero, _quantized(node, low, high, emit))


def _quantized(node: Node, low: Tensor, high: Tensor, emit: Emitter) -> Tensor:
    """The numbers of the grid, in the order of operations in which TensorFlow computes them."""
    inputs, narrow = node["inputs"], bool(node.attributes.get("narrow_range"))
    first, last = (emit.like(level, inputs) for level in (int(narrow), 2 ** node.attributes.get("num_bits", 8) - 1))
    half = emit.like(0.5, inputs)
    levels, width = emit.op("Sub", last, first), emit.op("Sub", high, low)
    scale, inverse = emit.op("Div", width, levels), emit.op("Div", levels, width)
    # The level that stands for 0; the range moves, so that it is a whole number.
    zero = emit.op("Min", emit.op("Max", emit.op("Sub", first, emit.op("Div", low, scale)), first), last)
    zero = emit.op("Floor", emit.op("Add", zero, half))
    least, most = (emit.op("Mul", emit.op("Sub", level, zero), scale) for level in (first, last))
    shift = emit.op("Floor", emit.op("Add", emit.op("Mul", emit.op("Neg", least), inverse), half))
    inside = emit.op("Max", emit.op("Min", inputs, most), least)
    level = emit.op("Sub", emit.op("Mul", emit.op("Sub", inside, least), inverse), shift)
    return emit.op("Mul", emit.op("Floor", emit.op("Add", level, half)), scale)


@handles(
    "QuantizeAndDequantizeV2",
    "QuantizeAndDequantizeV4",
    "QuantizeAndDequantizeV3",
    to="Round",
    dtypes=("float", "double"),
    differs="if no range is given and the numbers have NaN, all are NaN; in TensorFlow an infinity may stay",
)
def quantize_and_dequantize(node: Node, emit: Emitter) -> Tensor:
    """The nearest level of each number, between a given or the found range."""
    x, attributes = node["input"], node.attributes
    bits = node["num_bits"].integer("num_bits") if "num_bits" in node.inputs else int(attributes["num_bits"])
    if not 1 <= bits <= 63:
        raise Unsupported(f"num_bits = {bits} is out of range")
    rounding = attributes["round_mode"] if node.op_type != "QuantizeAndDequantizeV3" else b"HALF_TO_EVEN"
    if rounding not in (b"HALF_TO_EVEN", b"HALF_UP"):
        raise Unsupported(f"its attribute round_mode = {rounding.decode('utf-8', 'replace')!r} is not converted")
    is_signed, is_narrow = bool(attributes["signed_input"]), bool(attributes["narrow_range"])
    lowest = (-(1 << (bits - 1)) + int(is_narrow)) if is_signed else 0
    highest = (1 << (bits - 1)) - 1 if is_signed else (1 << bits) - 1
    axis, is_given = int(attributes["axis"]), bool(attributes["range_given"])
    if is_given:
        low, high = node["input_min"], node["input_max"]
    else:
        node.disregard("input_min", "input_max")
        others = None if axis < 0 else emit.constant([d for d in range(x.rank) if d != x.axis(axis)])
        low, high = (emit.op(f"Reduce{kind}", x, others, keepdims=0) for kind in ("Min", "Max"))
    scale, inverse, low, high = _scales(low, high, lowest, highest, emit)
    if axis >= 0 and low.rank == 1:
        after = emit.constant([*range(1, x.rank - x.axis(axis))])
        if x.rank - x.axis(axis) > 1:
            scale, inverse, low, high = (emit.op("Unsqueeze", each, after) for each in (scale, inverse, low, high))
    if is_given:
        x = emit.op("Max", emit.op("Min", x, high), low)
    levels = emit.op("Mul", x, scale)
    if rounding == b"HALF_UP":
        levels = emit.op("Floor", emit.op("Add", levels, emit.like(0.5, x)))
    else:
        levels = emit.op("Round", levels)
    return emit.op("Mul", levels, inverse)


def _scales(low: Tensor, high: Tensor, lowest: int, highest: int, emit: Emitter) -> tuple[Tensor, ...]:
    """The factor to levels and that back, and the range of the levels; the end that needs more levels decides."""
    zero, most = emit.like(0, low), emit.like(float(np.finfo(numpy_dtype(low.dtype)).max), low)

    def factor(level: int, end: Tensor) -> Tensor:
        matters = emit.op("Greater", emit.op("Mul", emit.like(level, end), end), zero)
        return emit.op("Where", matters, emit.op("Div", emit.like(level, end), end), most)

    from_low, from_high = factor(lowest, low), factor(highest, high)
    is_low = emit.op("Less", from_low, from_high)
    scale = emit.op("Where", is_low, from_low, from_high)
    back = emit.op("Div", high, emit.like(highest, high))
    if lowest:
        back = emit.op("Where", is_low, emit.op("Div", low, emit.like(lowest, low)), back)
    new_low, new_high = (emit.op("Mul", emit.like(level, low), back) for level in (lowest, highest))
    return scale, back, emit.op("Where", is_low, low, new_low), emit.op("Where", is_low, new_high, high)
