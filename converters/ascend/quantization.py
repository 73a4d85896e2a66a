"""Quantization as the NPU's operations do it: int8 values with scales and offsets."""

from __future__ import annotations

from functools import partial, reduce

from onnx import TensorProto

from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.bits import float_of_bits

_INT8_MIN, _INT8_MAX = -128.0, 127.0
#: Divides a row of zeros, whose scale is 0: the result is then 0, not NaN.
_TINY = 1e-38
#: float32 holds every whole number up to 2^24, so it sums this many products of two int8s without rounding.
_EXACT_TERMS = 2**24 // 128**2


def rounded_int8(emit: AscendEmitter, x: Tensor) -> Tensor:
    """A float32 rounded to even and clamped to int8."""
    bounds = (emit.constant(bound, TensorProto.FLOAT) for bound in (_INT8_MIN, _INT8_MAX))
    return emit.cast(emit.op("Clip", emit.op("Round", x), *bounds, shape=x.shape), TensorProto.INT8)


def dynamic_symmetric(emit: AscendEmitter, x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a float32 tensor as int8, and the scale of each, max|x| / 127."""
    last = [-1]
    largest = emit.reduce("ReduceMax", emit.op("Abs", x), last, keepdims=True)
    scale = emit.op("Div", largest, emit.constant(_INT8_MAX, TensorProto.FLOAT))
    divisor = emit.op("Max", scale, emit.constant(_TINY, TensorProto.FLOAT))
    quantized = rounded_int8(emit, emit.op("Div", x, divisor))
    return quantized, _flat(emit, scale)


def dynamic_asymmetric(emit: AscendEmitter, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of a float32 tensor as int8, and the scale and offset of each, by which its range fills -128 to 127."""
    last = [-1]
    high, low = (emit.reduce(name, x, last, keepdims=True) for name in ("ReduceMax", "ReduceMin"))
    scale = emit.op("Div", emit.op("Sub", high, low), emit.constant(255.0, TensorProto.FLOAT))
    divisor = emit.op("Max", scale, emit.constant(_TINY, TensorProto.FLOAT))
    middle = emit.op("Div", emit.op("Add", high, low), emit.op("Mul", divisor, emit.constant(2.0, TensorProto.FLOAT)))
    offset = emit.op("Neg", middle)
    quantized = rounded_int8(emit, emit.op("Add", emit.op("Div", x, divisor), offset))
    return quantized, _flat(emit, scale), _flat(emit, offset)


def _flat(emit: AscendEmitter, rows: Tensor) -> Tensor:
    return emit.op("Squeeze", rows, emit.constant([-1]))


def integer_matmul(emit: AscendEmitter, left: Tensor, right: Tensor) -> Tensor:
    """The int32 product of two int8 matrices, exactly.

    It is computed in float32, in which BLAS is fast, in parts that float32 sums without rounding.
    """
    if left.dtype != TensorProto.INT8 or right.dtype != TensorProto.INT8:
        raise Unsupported(f"{left} and {right}: int8 expected")
    if left.rank < 2 or right.rank < 2:
        raise Unsupported(f"{left} and {right} are not matrices")
    known = {size for size in (left.dim(-1), right.dim(-2)) if size is not None}
    if len(known) != 1:
        reason = "cannot be multiplied" if known else "have an unknown number of terms"
        raise Unsupported(f"{left} and {right} {reason}")
    (terms,) = known
    a, b = (emit.cast(tensor, TensorProto.FLOAT) for tensor in (left, right))
    parts = []
    for start in range(0, max(terms, 1), _EXACT_TERMS):
        end = min(start + _EXACT_TERMS, terms)
        sides = ((a, left.rank - 1), (b, right.rank - 2))
        part = emit.matmul(*(emit.slice(side, [start], [end], [axis]) for side, axis in sides))
        parts.append(emit.cast(part, TensorProto.INT32))
    return reduce(partial(emit.op, "Add"), parts)


def dequantization_scale(emit: AscendEmitter, scale: Tensor) -> Tensor:
    """A scale as float32; int64 and uint64 hold the bits of a float32 in their lower half."""
    if scale.dtype == TensorProto.FLOAT:
        return scale
    if scale.dtype not in (TensorProto.INT64, TensorProto.UINT64):
        raise Unsupported(f"the scale is {scale}; float32, or its bits in int64, expected")
    return float_of_bits(emit, scale)
