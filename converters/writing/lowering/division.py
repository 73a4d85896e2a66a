"""Division that rounds down, as in Python; ONNX rounds integer quotients toward zero."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import FLOATS, UNSIGNED_INTEGERS


def floor_div(emit: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """The quotient of two tensors of one element type, rounded down."""
    quotient = emit.op("Div", x, y)
    if x.dtype in FLOATS:
        return emit.op("Floor", quotient)
    if x.dtype in UNSIGNED_INTEGERS:
        return quotient
    # One remainder has the sign of y, the other that of x; where they differ, the quotient is one too large. To divide
    # x less its remainder would be shorter, but that difference may be beyond the type.
    rest = emit.op("Sub", x, emit.op("Mul", quotient, y))
    is_same = emit.op("Equal", emit.op("Mod", x, y), rest)
    return emit.op("Sub", quotient, emit.cast(emit.op("Not", is_same), x.dtype))


def floor_mod(emit: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """The remainder of division rounded down, which has the sign of the divisor; ONNX's Mod is that for integers."""
    if x.dtype not in FLOATS:
        return emit.op("Mod", x, y)
    # The remainder of the division is exact, which x - floor(x / y) * y is not.
    rest = emit.op("Mod", x, y, fmod=1)
    zero = emit.like(0, rest)
    differ = emit.op("Xor", emit.op("Less", rest, zero), emit.op("Less", y, zero))
    is_moved = emit.op("And", differ, emit.op("Not", emit.op("Equal", rest, zero)))
    return emit.op("Where", is_moved, emit.op("Add", rest, y), rest)
