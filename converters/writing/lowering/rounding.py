"""Whole numbers near floats, in the ways that ONNX's Round, which takes the even one of two, is not. Signs."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import FLOATS


def truncated(emit: Emitter, x: Tensor) -> Tensor:
    """The next whole number toward zero. Integers, NaN and infinities stay as they are."""
    return x if x.dtype not in FLOATS else emit.in_float32(lambda wide: _truncated(emit, wide), x)


def _truncated(emit: Emitter, x: Tensor) -> Tensor:
    is_below = emit.op("Less", x, emit.like(0, x))
    return emit.op("Where", is_below, emit.op("Ceil", x), emit.op("Floor", x))


def half_away(emit: Emitter, x: Tensor) -> Tensor:
    """The nearest whole number; of two, the one away from zero. Integers, NaN and infinities stay as they are."""
    if x.dtype not in FLOATS:
        return x
    size = emit.op("Abs", x)
    whole = emit.op("Floor", size)
    # Not floor(|x| + 0.5): for the largest number below a half, the sum is rounded up to 1.
    up = emit.op("GreaterOrEqual", emit.op("Sub", size, whole), emit.like(0.5, x))
    return emit.op("Mul", emit.op("Sign", x), emit.op("Add", whole, emit.cast(up, x.dtype)))


def sign(emit: Emitter, x: Tensor) -> Tensor:
    """-1, 0 or 1; NaN of NaN, for which ONNX Runtime's kernel of bfloat16 gives 0."""
    return emit.in_float32(lambda wide: emit.op("Sign", wide), x)
