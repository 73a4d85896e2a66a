"""GE's functions of each element that ONNX has under another name, or as several operators."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import halves
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import activations, arithmetic, division
from onnx_sparse.converters.writing.lowering.logarithms import expm1, log1p
from onnx_sparse.converters.writing.lowering.shifts import shift_left, shift_right
from onnx_sparse.converters.writing.lowering.special_functions import inverse_error
from onnx_sparse.converters.writing.registry import lowered
from onnx_sparse.schemas.declaration import FLOATS, numpy_dtype

_NAMES = ("Atan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh")


@handles(*_NAMES)
def function(node: Node, emit: AscendEmitter) -> Tensor:
    """A function of x."""
    return emit.in_float32(lambda x: emit.op(node.op_type, x), *node.take(1))


@handles("Inv", to="Reciprocal")
def inverse(node: Node, emit: AscendEmitter) -> Tensor:
    """Inv(x): 1 / x."""
    return emit.in_float32(lambda x: emit.op("Reciprocal", x), *node.take(1))


handles("Log1p", to="Log, Where")(lowered(log1p))
handles("Expm1", to="Exp, Log, Where")(lowered(expm1))
handles("Erfinv", to="Log, Sqrt, Where")(lowered(inverse_error))
handles("IsFinite", to="IsNaN, IsInf, Or, Not")(lowered(arithmetic.is_finite))
handles("LeftShift", to="BitShift", notes="amounts are limited to the width of the type")(lowered(shift_left))
handles("RightShift", to="BitShift", notes="amounts are limited to the width of the type")(lowered(shift_right))


@handles("Erfc", to="Erf", differs="computed as 1 - erf(x): as wrong as the result itself is large where x > 4")
def complementary_error(node: Node, emit: AscendEmitter) -> Tensor:
    """Erfc(x): 1 - erf(x)."""
    return emit.in_float32(lambda x: emit.op("Sub", emit.like(1, x), emit.op("Erf", x)), *node.take(1))


@handles("TruncateDiv", to="Div, Ceil, Floor, Where")
def truncate_div(node: Node, emit: AscendEmitter) -> Tensor:
    """TruncateDiv(x1, x2): the quotient toward zero."""
    return emit.in_float32(lambda x, y: division.truncate_div(emit, x, y), *node.take(2))


@handles("LogSigmoid", to="Softplus, Neg")
def log_sigmoid(node: Node, emit: AscendEmitter) -> Tensor:
    """LogSigmoid(x): -softplus(-x)."""
    return emit.in_float32(lambda x: emit.op("Neg", activations.softplus(emit, emit.op("Neg", x))), *node.take(1))


@handles("Selu", to="Exp, Sub, Mul, Where")
def selu(node: Node, emit: AscendEmitter) -> Tensor:
    """Selu(x)."""
    (x,) = node.take(1)
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return emit.in_float32(lambda wide: activations.selu(emit, wide, emit.like(alpha, wide), emit.like(scale, wide)), x)


@handles("StopGradient", "PreventGradient", "Snapshot", to="Identity", ignored=("message",))
def same(node: Node, emit: AscendEmitter) -> Results:
    """The same tensor, which only training would treat in another way."""
    return node.take(1)


@handles("BitwiseAnd", "BitwiseOr", "BitwiseXor", to="BitwiseAnd, BitwiseOr, BitwiseXor")
def bitwise(node: Node, emit: AscendEmitter) -> Tensor:
    """BitwiseAnd(x1, x2), BitwiseOr(x1, x2), BitwiseXor(x1, x2)."""
    x, y = node.take(2)
    if x.dtype == y.dtype == TensorProto.BOOL:
        return emit.op(node.op_type.removeprefix("Bitwise"), x, y)
    return emit.op(node.op_type, x, y)


@handles("Invert", to="BitwiseNot")
def invert(node: Node, emit: AscendEmitter) -> Tensor:
    """Invert(x): the complement of the bits."""
    (x,) = node.take(1)
    return emit.op("Not" if x.dtype == TensorProto.BOOL else "BitwiseNot", x)


@handles("DivNoNan", to="Equal, Div, Where")
def divide_no_nan(node: Node, emit: AscendEmitter) -> Tensor:
    """DivNoNan(x1, x2): 0 where the divisor is 0."""

    def compute(x: Tensor, y: Tensor) -> Tensor:
        is_zero = emit.op("Equal", y, emit.like(0, y))
        divisor = y if x.dtype in FLOATS else emit.op("Where", is_zero, emit.like(1, y), y)
        return emit.op("Where", is_zero, emit.like(0, x), emit.op("Div", x, divisor))

    return emit.in_float32(compute, *node.take(2))


@handles("MulNoNan", "Xlogy", "Xdivy", to="Equal, Mul, Where")
def zero_whatever_the_other(node: Node, emit: AscendEmitter) -> Tensor:
    """x1 * x2, x1 * log(x2), x1 / x2; 0 where x1 is 0, or for MulNoNan where x2 is, even beside NaN and infinities."""

    def compute(x: Tensor, y: Tensor) -> Tensor:
        decisive = y if node.op_type == "MulNoNan" else x
        other = emit.op("Log", y) if node.op_type == "Xlogy" else y
        made = emit.op("Div" if node.op_type == "Xdivy" else "Mul", x, other)
        return emit.op("Where", emit.op("Equal", decisive, emit.like(0, decisive)), emit.like(0, x), made)

    return emit.in_float32(compute, *node.take(2))


@handles("TruncateMod", "Mod", to="Mod")
def truncate_mod(node: Node, emit: AscendEmitter) -> Tensor:
    """TruncateMod(x1, x2), Mod(x1, x2): what is left, of the sign of x1."""
    return emit.in_float32(lambda x, y: emit.op("Mod", x, y, fmod=1), *node.take(2))


@handles("Addcmul", "Addcdiv", to="Mul, Div, Add")
def add_product(node: Node, emit: AscendEmitter) -> Tensor:
    """Addcmul(input, x1, x2, value): input + value * x1 * x2; Addcdiv divides by x2."""
    total, x, y, value = node.take(4)
    wide = emit.wide(total)
    x, y, value = (emit.cast(tensor, wide.dtype) for tensor in (x, y, value))
    scaled = emit.op("Mul", value, x)
    part = emit.op("Mul" if node.op_type == "Addcmul" else "Div", scaled, y)
    return emit.cast(emit.op("Add", wide, part), total.dtype)


@handles("Lerp", to="Sub, Mul, Add")
def lerp(node: Node, emit: AscendEmitter) -> Tensor:
    """Lerp(start, end, weight): start + weight * (end - start)."""

    def compute(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
        return emit.op("Add", start, emit.op("Mul", weight, emit.op("Sub", end, start)))

    return emit.in_float32(compute, *node.take(3))


@handles("Sxpy", to="Mul, Sub")
def reversed_difference(node: Node, emit: AscendEmitter) -> Tensor:
    """Sxpy(x1, x2, alpha): x1 - alpha * x2."""
    (x, y), (alpha,) = node.optional(2, 3)
    wide = emit.wide(x)
    other = emit.cast(y, wide.dtype)
    if alpha is not None:
        other = emit.op("Mul", other, emit.cast(alpha, wide.dtype))
    return emit.cast(emit.op("Sub", wide, other), x.dtype)


@handles("NanToNum", to="IsNaN, Equal, Where")
def nan_to_num(node: Node, emit: AscendEmitter) -> Tensor:
    """NanToNum(x | nan, posinf, neginf): numbers in place of NaN and of the infinities."""
    (x,) = node.take(1)
    wide = emit.wide(x)
    kind = numpy_dtype(x.dtype)
    largest = float(np.finfo(kind).max) if kind.kind == "f" else _largest(x)
    made = emit.op("Where", emit.op("IsNaN", wide), emit.like(node.number("nan", 0.0), wide), wide)
    for name, sign in (("posinf", 1), ("neginf", -1)):
        is_end = emit.op("Equal", wide, emit.like(sign * math.inf, wide))
        made = emit.op("Where", is_end, emit.like(node.number(name, sign * largest), wide), made)
    return emit.cast(made, x.dtype)


def _largest(x: Tensor) -> float:
    if x.dtype != TensorProto.BFLOAT16:
        raise Unsupported(f"{x} is not of floats")
    return float(np.uint32(0x7F7F0000).view(np.float32))


@handles("PRelu", to="Where, Mul")
def prelu(node: Node, emit: AscendEmitter) -> Tensor:
    """PRelu(x, weight): x, where it is negative times a weight, of which each channel (axis 1) may have its own."""

    def compute(x: Tensor, weight: Tensor) -> Tensor:
        if weight.shape not in ((), (1,)) and weight.rank == 1 and x.rank > 2:
            weight = emit.op("Unsqueeze", weight, emit.constant([*range(1, x.rank - 1)]))
        return emit.op("Where", emit.op("Greater", x, emit.like(0, x)), x, emit.op("Mul", x, weight))

    return emit.in_float32(compute, *node.take(2))


@handles("ThresholdV2", to="Greater, Where")
def threshold(node: Node, emit: AscendEmitter) -> Tensor:
    """ThresholdV2(x, threshold, value): x where it is above the threshold or NaN, elsewhere the value."""
    (x, bound), (value,) = node.optional(2, 3)
    wide = emit.wide(x)
    low, other = (emit.scalar(emit.cast(t, wide.dtype)) for t in (bound, emit.like(0, x) if value is None else value))
    below = emit.op("LessOrEqual", wide, low)
    return emit.cast(emit.op("Where", below, other, wide), x.dtype)


@handles("GLU", to="Split, Sigmoid, Mul")
def glu(node: Node, emit: AscendEmitter) -> Tensor:
    """GLU(x | dim): a * sigmoid(b) of the halves a and b."""
    (x,) = node.take(1)
    value, gate = halves(emit, x, node.integer("dim", -1))
    return emit.cast(emit.op("Mul", value, emit.op("Sigmoid", gate)), x.dtype)


@handles("Relu6", to="Max, Min")
def relu_6(node: Node, emit: AscendEmitter) -> Tensor:
    """Relu6(x): at least 0 and at most 6."""
    (x,) = node.take(1)
    return emit.arithmetic("Min", emit.arithmetic("Max", x, emit.like(0, x)), emit.like(6, x))
