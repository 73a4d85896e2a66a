"""Numbers at equal distances."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


def linear_space(emit: Emitter, start: Tensor, stop: Tensor, num: Tensor) -> Tensor:
    """So many numbers from one to another, at equal distances; the last is exact."""
    count = emit.cast(num, TensorProto.INT64)
    numbers = emit.op("Range", emit.constant(0), emit.scalar(count), emit.constant(1))
    steps = emit.op("Max", emit.op("Sub", count, emit.constant(1)), emit.constant(1))
    step = emit.op("Div", emit.op("Sub", stop, start), emit.cast(steps, start.dtype))
    values = emit.op("Add", start, emit.op("Mul", emit.cast(numbers, start.dtype), step))
    is_last = emit.op("And", emit.op("Equal", numbers, steps), emit.op("Greater", count, emit.constant(1)))
    return emit.op("Where", is_last, stop, values)
