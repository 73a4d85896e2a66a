"""The bits of numbers as those of another type. Standard ONNX of this opset has no bit cast: they are taken apart."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.searching import count_below
from onnx_sparse.converters.writing.lowering.shifts import shift_right
from onnx_sparse.schemas.declaration import SIGNED_INTEGERS, UNSIGNED_INTEGERS, DType, numpy_dtype

_INTEGERS = frozenset({*SIGNED_INTEGERS, *UNSIGNED_INTEGERS})

#: The floats whose bits are taken apart, all of which float32 holds: their bits of the exponent and of the fraction.
_FORMATS: dict[DType, tuple[int, int]] = {
    TensorProto.FLOAT: (8, 23),
    TensorProto.BFLOAT16: (8, 7),
    TensorProto.FLOAT16: (5, 10),
}


def reinterpreted(emit: Emitter, x: Tensor, dtype: DType) -> Tensor:
    """The bits of integers, float32 and half floats as another of these types; of a NaN, those of the quiet one.

    A wider type takes the last dimension, a narrower one adds one; the lowest bits come first.

    Raises:
        Unsupported: It is another type, and not a constant; or the last dimension has not the parts of a wider type.
    """
    given, wanted = numpy_dtype(x.dtype), numpy_dtype(dtype)
    if dtype == x.dtype:
        return x
    count = wanted.itemsize // given.itemsize
    if count > 1 and x.shape is not None and (not x.shape or x.shape[-1] not in (count, None)):
        raise Unsupported(f"{x} as {wanted}; its last dimension must be {count}")
    if x.value is not None and given.kind in "iuf" and wanted.kind in "iuf":
        value = np.ascontiguousarray(x.value).reshape(x.value.shape)
        if wanted.itemsize < given.itemsize:
            value = value[..., np.newaxis]
        seen = value.view(wanted)
        return emit.constant(np.squeeze(seen, -1) if wanted.itemsize > given.itemsize else seen, dtype)
    types = {*_INTEGERS, *_FORMATS}
    if not {x.dtype, dtype} <= types:
        raise Unsupported(f"the bits of {x} as another type: ONNX Runtime has no operator for it")
    bits = float_bits(emit, x) if x.dtype in _FORMATS else x
    if given.itemsize > wanted.itemsize:
        bits = _parts(emit, bits, given.itemsize // wanted.itemsize, 8 * wanted.itemsize)
    elif given.itemsize < wanted.itemsize:
        bits = _whole(emit, bits, count, 8 * given.itemsize)
    return float_of_bits(emit, bits, dtype) if dtype in _FORMATS else emit.cast(bits, dtype)


def _parts(emit: Emitter, bits: Tensor, count: int, width: int) -> Tensor:
    """Integers in parts of some bits each, uint64 `[..., count]`, of which the higher bits say nothing."""
    wide = emit.op("Unsqueeze", emit.cast(bits, TensorProto.UINT64), emit.constant([-1]))
    return shift_right(emit, wide, emit.constant(np.arange(count) * width, TensorProto.UINT64))


def _whole(emit: Emitter, parts: Tensor, count: int, width: int) -> Tensor:
    """Integers whose parts of some bits each are the last dimension, as int64."""
    unsigned = emit.op("Mod", emit.cast(parts, TensorProto.INT64), emit.constant(2**width))
    return emit.op("MatMul", unsigned, emit.constant([2 ** (width * k) for k in range(count)]))


def _powers(exponent: int) -> np.ndarray:
    """What the normal numbers of a format are multiples of, smallest first."""
    bias = 2 ** (exponent - 1) - 1
    return np.ldexp(np.float32(1), np.arange(1 - bias, bias + 1)).astype(np.float32)


def float_of_bits(emit: Emitter, bits: Tensor, dtype: DType = TensorProto.FLOAT) -> Tensor:
    """The float32 or half float that has the lower bits of an integer."""
    width, digits = _FORMATS[dtype]
    sign, one = 2 ** (width + digits), emit.constant(2**digits)
    bits = emit.op("Mod", emit.cast(bits, TensorProto.INT64), emit.constant(2 * sign), shape=bits.shape)
    exponent = emit.op("Mod", emit.op("Div", bits, one), emit.constant(2**width))
    fraction = emit.cast(emit.op("Mod", bits, one), TensorProto.FLOAT)
    normal = _powers(width)
    powers = np.concatenate([normal[:1], normal, [np.float32(np.inf)]])
    power = emit.op("Gather", emit.constant(powers), exponent, shape=bits.shape, axis=0)
    # Numbers below the smallest normal one have no leading 1.
    leading = emit.cast(emit.op("Greater", exponent, emit.constant(0)), TensorProto.FLOAT)
    significand = emit.op("Add", leading, emit.op("Mul", fraction, emit.constant(2.0**-digits, TensorProto.FLOAT)))
    magnitude = emit.op("Mul", significand, power)
    infinity = sign - 2**digits
    is_nan = emit.op("Greater", emit.op("Mod", bits, emit.constant(sign)), emit.constant(infinity))
    magnitude = emit.op("Where", is_nan, emit.constant(np.nan, TensorProto.FLOAT), magnitude)
    is_negative = emit.op("GreaterOrEqual", bits, emit.constant(sign))
    # A factor, because ONNX Runtime's Where makes 0 of -0.
    factor = emit.op("Where", is_negative, *(emit.constant(each, TensorProto.FLOAT) for each in (-1.0, 1.0)))
    return emit.cast(emit.op("Mul", magnitude, factor), dtype)


def float_bits(emit: Emitter, x: Tensor) -> Tensor:
    """The bits of a float32 or half float as int64, not negative, of NaN those of the quiet one."""
    width, digits = _FORMATS[x.dtype]
    x = emit.cast(x, TensorProto.FLOAT)
    powers = _powers(width)
    size, zero = emit.op("Abs", x), emit.constant(0)
    limits = emit.constant(np.append(powers, np.float32(np.inf)))
    exponent = count_below(emit, limits, size, or_equal=True, nan_first=True)
    # By a power of two, the division is exact. Numbers below the smallest normal one have no leading 1.
    units = np.concatenate([powers[:1], powers, [1]]).astype(np.float32)
    significand = emit.op("Div", size, emit.op("Gather", emit.constant(units), exponent, axis=0))
    leading = emit.cast(emit.op("Greater", exponent, zero), TensorProto.FLOAT)
    part = emit.op("Mul", emit.op("Sub", significand, leading), emit.constant(2.0**digits, TensorProto.FLOAT))
    is_finite = emit.op("Less", size, emit.constant(np.inf, TensorProto.FLOAT))
    fraction = emit.cast(emit.op("Where", is_finite, part, emit.constant(0.0, TensorProto.FLOAT)), TensorProto.INT64)
    magnitude = emit.op("Add", emit.op("Mul", exponent, emit.constant(2**digits)), fraction)
    signed = emit.op("Where", emit.op("Equal", size, emit.like(0, x)), emit.op("Reciprocal", x), x)  # zeros have signs
    is_negative = emit.op("Less", signed, emit.like(0, x))
    sign = 2 ** (width + digits)
    bits = emit.op("Add", magnitude, emit.op("Where", is_negative, emit.constant(sign), zero))
    return emit.op("Where", emit.op("IsNaN", x), emit.constant(sign - 2 ** (digits - 1)), bits)
