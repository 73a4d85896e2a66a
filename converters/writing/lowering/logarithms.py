"""Logarithms and exponentials near 0 and 1, without the digits that 1 + x loses."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


def log1p(emit: Emitter, x: Tensor) -> Tensor:
    """log(1 + x), to a few units in the last place for small x, too: -inf of -1, NaN below, inf of inf.

    Rounding 1 + x to u loses digits of x, but log(u) / (u - 1) changes little with u, and x times it has them again
    (W. Kahan).
    """
    return emit.in_float32(lambda wide: _log1p(emit, wide), x)


def _log1p(emit: Emitter, x: Tensor) -> Tensor:
    one = emit.like(1, x)
    u = emit.op("Add", one, x)
    rounded = emit.op("Sub", u, one)
    log = emit.op("Log", u)
    exact = emit.op("Mul", x, emit.op("Div", log, rounded))
    large = emit.op("Where", emit.op("Equal", rounded, u), log, exact)  # infinity, too
    return emit.op("Where", emit.op("Equal", u, one), x, large)


def expm1(emit: Emitter, x: Tensor) -> Tensor:
    """exp(x) - 1, to a few units in the last place for small x, too; see `log1p`. It is -1 of -inf, inf of inf."""
    return emit.in_float32(lambda wide: _expm1(emit, wide), x)


def _expm1(emit: Emitter, x: Tensor) -> Tensor:
    one = emit.like(1, x)
    u = emit.op("Exp", x)
    rounded = emit.op("Sub", u, one)
    exact = emit.op("Mul", x, emit.op("Div", rounded, emit.op("Log", u)))
    far = emit.op("Or", emit.op("Equal", rounded, u), emit.op("Equal", rounded, emit.like(-1, x)))
    large = emit.op("Where", far, rounded, exact)
    return emit.op("Where", emit.op("Equal", u, one), x, large)
