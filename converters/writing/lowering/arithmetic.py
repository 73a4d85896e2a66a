"""Elements computed by a few standard operators each. Half floats are computed in float32 and rounded once."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


def squared_difference(emit: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """The square of x - y. Integers wrap; the difference of equal infinities is NaN."""
    return emit.in_float32(lambda *wide: _squared(emit, emit.op("Sub", *wide)), x, y)


def _squared(emit: Emitter, x: Tensor) -> Tensor:
    return emit.op("Mul", x, x)


def rsqrt(emit: Emitter, x: Tensor) -> Tensor:
    """One divided by the root: inf of 0, 0 of inf, NaN of what is negative."""
    return emit.in_float32(lambda wide: emit.op("Reciprocal", emit.op("Sqrt", wide)), x)


def is_finite(emit: Emitter, x: Tensor) -> Tensor:
    """Whether floats are neither infinite nor NaN."""
    wide = emit.wide(x)
    return emit.op("Not", emit.op("Or", *(emit.op(name, wide) for name in ("IsNaN", "IsInf"))))
