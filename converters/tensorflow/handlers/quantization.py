"""tf.raw_ops.FakeQuantWithMinMaxArgs, ...Vars and ...VarsPerChannel: numbers rounded to a grid that has a zero."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter


@handles("FakeQuantWithMinMaxArgs", inputs=("inputs",), to="Floor", dtypes=("float",))
def fake_quant_args(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The range is constant."""
    low, high = (emit.constant(node.attributes[name], TensorProto.FLOAT) for name in ("min", "max"))
    return (_quantized(node, low, high, emit),)


@handles(
    "FakeQuantWithMinMaxVars",
    "FakeQuantWithMinMaxVarsPerChannel",
    inputs=("inputs", "min", "max"),
    to="Floor",
    dtypes=("float",),
)
def fake_quant_vars(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The range is an input; everything is 0 if both its ends are."""
    low, high = node["min"], node["max"]
    zero = emit.like(0, low)
    no_range = emit.op("And", emit.op("Equal", low, zero), emit.op("Equal", high, zero))
    return (emit.op("Where", no_range, zero, _quantized(node, low, high, emit)),)


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
