"""tf.raw_ops.Fill, ZerosLike, OnesLike, OneHot, also for indices out of range, and Range of floats."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering import one_hot as lowering


@handles("Fill")
def fill(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator under the same names."""
    return emit.domain_op("Fill", node.inputs)


@handles("OneHot", to="Equal", dtypes=("every type",))
def one_hot(node: Node, emit: Emitter) -> Tensor:
    """On at the index, off elsewhere; off everywhere if the index is negative or too large."""
    axis = int(node.attributes.get("axis", -1))
    return lowering.one_hot(emit, node["indices"], node["depth"], node["on_value"], node["off_value"], axis)


@handles("ZerosLike", "OnesLike", to="Expand", dtypes=("every type",))
def filled_like(node: Node, emit: Emitter) -> Tensor:
    """A constant in the shape of x; for strings, zero is the empty string."""
    x = node["x"]
    number = 0 if node.op_type == "ZerosLike" else 1
    value = emit.constant("" if x.dtype == TensorProto.STRING else number, x.dtype)
    return emit.op("Expand", value, emit.shape_of(x))


def range_of_floats(node: Node, emit: Emitter) -> Tensor:
    """As many floats as TensorFlow counts, each rounded once: a start, and a number of steps."""
    start, limit, delta = node["start"], node["limit"], node["delta"]
    steps = emit.op("Ceil", emit.op("Div", emit.op("Sub", limit, start), delta), shape=())
    count = emit.cast(steps, TensorProto.INT64)
    numbers = emit.op("Range", emit.constant(0), count, emit.constant(1), shape=(None,))
    return emit.op("Add", start, emit.op("Mul", emit.cast(numbers, start.dtype), delta))
