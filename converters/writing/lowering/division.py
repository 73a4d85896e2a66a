"""Division that rounds down, as in Python, or toward zero; ONNX rounds quotients of integers toward zero."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.rounding import truncated
from onnx_sparse.schemas.declaration import FLOATS, HALF_FLOATS, UNSIGNED_INTEGERS


def floor_div(emit: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """The quotient of two tensors of one element type, rounded down.

    Of integers, it is exact at the ends of the type. Division by zero, and of the least integer by -1, are not defined.
    That of floats is the rounded quotient's: infinite or NaN where that is.
    """
    if x.dtype in FLOATS:
        return emit.cast(emit.op("Floor", _rounded_quotient(emit, x, y)), x.dtype)
    quotient = emit.op("Div", x, y)
    if x.dtype in UNSIGNED_INTEGERS:
        return quotient
    # One remainder has the sign of y, the other that of x; where they differ, the quotient is one too large. To divide
    # x less its remainder would be shorter, but that difference may be beyond the type.
    rest = emit.op("Sub", x, emit.op("Mul", quotient, y))
    is_same = emit.op("Equal", emit.op("Mod", x, y), rest)
    return emit.op("Sub", quotient, emit.cast(emit.op("Not", is_same), x.dtype))


def truncate_div(emit: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """The quotient of two tensors of one element type, rounded toward zero; see `floor_div`."""
    return emit.cast(truncated(emit, _rounded_quotient(emit, x, y)), x.dtype)


def _rounded_quotient(emit: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """The quotient; of half floats, as float32 that are rounded to their type.

    ONNX Runtime computes these in float32, and does not round between two nodes.
    """
    if x.dtype not in HALF_FLOATS:
        return emit.op("Div", x, y)
    wide = emit.op("Div", *(emit.cast(each, TensorProto.FLOAT) for each in (x, y)))
    return emit.cast(emit.cast(wide, x.dtype), TensorProto.FLOAT)


def floor_mod(emit: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """The remainder of division rounded down, which has the sign of the divisor; ONNX's Mod is that for integers.

    Of floats, it is exact. An infinite divisor leaves x, or is the remainder itself where the signs differ.
    """
    if x.dtype not in FLOATS:
        return emit.op("Mod", x, y)
    # The remainder of the division is exact, which x - floor(x / y) * y is not.
    rest = emit.op("Mod", x, y, fmod=1)
    zero = emit.like(0, rest)
    differ = emit.op("Xor", emit.op("Less", rest, zero), emit.op("Less", y, zero))
    is_moved = emit.op("And", differ, emit.op("Not", emit.op("Equal", rest, zero)))
    return emit.op("Where", is_moved, emit.op("Add", rest, y), rest)


def truncate_mod(emit: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """The remainder of division rounded toward zero, which has the sign of the dividend; exact, as C's fmod."""
    return emit.op("Mod", x, y, fmod=1)
