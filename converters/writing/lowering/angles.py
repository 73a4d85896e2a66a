"""The angle of a point."""

from __future__ import annotations

import math

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.trigonometry import trigonometric


def angle(emit: Emitter, y: Tensor, x: Tensor) -> Tensor:
    """The angle of a point, with the quadrants of infinities and signed zeros; of NaN it is NaN."""
    return emit.in_float32(lambda y, x: _angle(emit, y, x), y, x)


def _angle(emit: Emitter, y: Tensor, x: Tensor) -> Tensor:
    zero, pi = emit.like(0, x), emit.like(math.pi, x)
    height, width = emit.op("Abs", y), emit.op("Abs", x)
    of_equals = emit.op("Where", emit.op("Equal", height, zero), zero, emit.like(1, x))  # not 0 / 0, nor inf / inf
    slope = emit.op("Where", emit.op("Equal", height, width), of_equals, emit.op("Div", height, width))
    made = trigonometric(emit, "Atan", slope)
    made = emit.op("Where", signed(emit, x), emit.op("Sub", pi, made), made)
    return emit.op("Where", signed(emit, y), emit.op("Neg", made), made)


def signed(emit: Emitter, x: Tensor) -> Tensor:
    """Whether each float is negative; -0 is, and NaN is not."""
    zero = emit.like(0, x)
    return emit.op("Less", emit.op("Where", emit.op("Equal", x, zero), emit.op("Reciprocal", x), x), zero)
