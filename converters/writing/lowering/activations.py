"""Activations. Half floats are computed in float32 and rounded once; doubles keep their digits.

ONNX's operators have their numbers as attributes, which are floats, and ONNX Runtime computes some in float32 only.
NaN stays NaN.
"""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.logarithms import expm1, log1p

#: Those of Selu in TensorFlow and torch.
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848, 1.0507009873554804934
#: The first operator set with Mish.
_WITH_MISH = 18


def gelu(emit: Emitter, x: Tensor, *, exact: bool) -> Tensor:
    """x * P(normal <= x), with the error function, or its approximation with tanh; NaN of -inf."""
    return emit.in_float32(lambda wide: _gelu(emit, wide, exact=exact), x)


def _gelu(emit: Emitter, x: Tensor, *, exact: bool) -> Tensor:
    if exact:
        curve = emit.op("Erf", emit.op("Div", x, emit.like(math.sqrt(2), x)))
    else:
        cube = emit.op("Mul", emit.op("Mul", x, x), emit.op("Mul", x, emit.like(0.044715, x)))
        curve = emit.op("Tanh", emit.op("Mul", emit.op("Add", x, cube), emit.like(math.sqrt(2 / math.pi), x)))
    half = emit.op("Mul", x, emit.like(0.5, x))
    return emit.op("Mul", half, emit.op("Add", curve, emit.like(1, x)))


def swish(emit: Emitter, x: Tensor, beta: Tensor | float = 1.0) -> Tensor:
    """x * sigmoid(beta * x); NaN of -inf."""
    if isinstance(beta, Tensor):
        return emit.in_float32(lambda *wide: _swish(emit, *wide), x, beta)
    return emit.in_float32(lambda wide: _swish(emit, wide, None if beta == 1 else emit.like(beta, wide)), x)


def _swish(emit: Emitter, x: Tensor, beta: Tensor | None) -> Tensor:
    return emit.op("Mul", x, emit.op("Sigmoid", x if beta is None else emit.op("Mul", x, beta)))


def elu(emit: Emitter, x: Tensor, alpha: float | None = None) -> Tensor:
    """x, or below 0 alpha * (exp(x) - 1), alpha being 1 when omitted."""
    if x.dtype != TensorProto.DOUBLE:
        return emit.in_float32(lambda wide: emit.op("Elu", wide, alpha=alpha), x)
    below = expm1(emit, x) if alpha is None else emit.op("Mul", emit.like(alpha, x), expm1(emit, x))
    return emit.op("Where", emit.op("Less", x, emit.like(0, x)), below, x)


def selu(emit: Emitter, x: Tensor, alpha: Tensor, scale: Tensor) -> Tensor:
    """scale * x, or below 0 scale * alpha * (exp(x) - 1)."""
    return emit.in_float32(lambda *wide: _selu(emit, *wide), x, alpha, scale)


def _selu(emit: Emitter, x: Tensor, alpha: Tensor, scale: Tensor) -> Tensor:
    zero = emit.like(0, x)
    below = emit.op("Sub", emit.op("Exp", emit.op("Min", x, zero)), emit.like(1, x))
    return emit.op("Mul", scale, emit.op("Add", emit.op("Max", x, zero), emit.op("Mul", alpha, below)))


def softplus(emit: Emitter, x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow: inf of inf, 0 of -inf."""
    if x.dtype != TensorProto.DOUBLE:
        return emit.in_float32(lambda wide: emit.op("Softplus", wide), x)
    beyond = emit.op("Max", x, emit.like(0, x))
    return emit.op("Add", beyond, log1p(emit, emit.op("Exp", emit.op("Neg", emit.op("Abs", x)))))


def softsign(emit: Emitter, x: Tensor) -> Tensor:
    """x / (1 + |x|); NaN of infinities."""
    if x.dtype != TensorProto.DOUBLE:
        return emit.in_float32(lambda wide: emit.op("Softsign", wide), x)
    return emit.op("Div", x, emit.op("Add", emit.like(1, x), emit.op("Abs", x)))


def mish(emit: Emitter, x: Tensor) -> Tensor:
    """x * tanh(softplus(x)); NaN of -inf."""
    if emit.opset >= _WITH_MISH and x.dtype == TensorProto.FLOAT:
        return emit.op("Mish", x)
    return emit.in_float32(lambda wide: emit.op("Mul", wide, emit.op("Tanh", softplus(emit, wide))), x)


def leaky_relu(emit: Emitter, x: Tensor, alpha: float) -> Tensor:
    """x, or below 0 alpha * x, with alpha in the type of x."""
    if x.dtype == TensorProto.FLOAT:
        return emit.op("LeakyRelu", x, alpha=alpha)
    scaled = emit.op("Mul", x, emit.like(alpha, x))
    return emit.op("Where", emit.op("Greater", x, emit.like(0, x)), x, scaled)


def hard_sigmoid(emit: Emitter, x: Tensor, alpha: float | Tensor, beta: float | Tensor) -> Tensor:
    """alpha * x + beta, at least 0 and at most 1."""
    if isinstance(alpha, Tensor) and isinstance(beta, Tensor):
        return emit.in_float32(lambda *wide: _hard_sigmoid(emit, *wide), x, alpha, beta)
    if x.dtype == TensorProto.DOUBLE:
        return _hard_sigmoid(emit, x, *(n if isinstance(n, Tensor) else emit.like(n, x) for n in (alpha, beta)))
    return emit.in_float32(lambda wide: emit.op("HardSigmoid", wide, alpha=alpha, beta=beta), x)


def _hard_sigmoid(emit: Emitter, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    line = emit.op("Add", emit.op("Mul", x, alpha), beta)
    return emit.op("Max", emit.like(0, x), emit.op("Min", emit.like(1, x), line))


def hard_swish(emit: Emitter, x: Tensor) -> Tensor:
    """x * (x / 6 + 1 / 2 between 0 and 1); NaN of -inf."""
    if x.dtype == TensorProto.DOUBLE:
        return emit.op("Mul", x, hard_sigmoid(emit, x, 1 / 6, 0.5))
    return emit.in_float32(lambda wide: emit.op("HardSwish", wide), x)
