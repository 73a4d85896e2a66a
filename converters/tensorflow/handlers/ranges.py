"""tf.raw_ops.Range of floats, of which TensorFlow computes the number in their own type; ONNX Runtime uses doubles."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node
from onnx_sparse.converters.writing.emitter import Emitter


def range_of_floats(node: Node, emit: Emitter) -> Tensor:
    """As many floats as TensorFlow counts, each rounded once: a start, and a number of steps."""
    start, limit, delta = node["start"], node["limit"], node["delta"]
    steps = emit.op("Ceil", emit.op("Div", emit.op("Sub", limit, start), delta), shape=())
    count = emit.cast(steps, TensorProto.INT64)
    numbers = emit.op("Range", emit.constant(0), count, emit.constant(1), shape=(None,))
    return emit.op("Add", start, emit.op("Mul", emit.cast(numbers, start.dtype), delta))
