"""tf.raw_ops.FloorDiv, FloorMod, Erfc; tf2onnx rounds integer quotients toward zero."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.schemas.declaration import FLOATS, UNSIGNED_INTEGERS

_NUMBERS = ("all numbers",)


@handles("FloorDiv", inputs=("x", "y"), to="Div", dtypes=_NUMBERS)
def floor_div(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """A quotient, rounded down; ONNX rounds integer quotients toward zero."""
    x, y = node["x"], node["y"]
    quotient = emit.op("Div", x, y)
    if x.dtype in FLOATS:
        return (emit.op("Floor", quotient),)
    if x.dtype in UNSIGNED_INTEGERS:
        return (quotient,)
    # One remainder has the sign of y, the other that of x; where they differ, the quotient is one too large.
    rest = emit.op("Sub", x, emit.op("Mul", quotient, y))
    same = emit.op("Equal", emit.op("Mod", x, y), rest)
    too_large = emit.cast(emit.op("Not", same), x.dtype)
    return (emit.op("Sub", quotient, too_large),)


@handles("FloorMod", inputs=("x", "y"), to="Mod", dtypes=_NUMBERS)
def floor_mod(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The remainder of division rounded down: it has the sign of the divisor."""
    x, y = node["x"], node["y"]
    if x.dtype not in FLOATS:
        return (emit.op("Mod", x, y),)
    rest = emit.op("Mod", x, y, fmod=1)
    signs = emit.op("Mul", emit.op("Sign", rest), emit.op("Sign", y))
    zero = emit.like(0, x)
    apart = emit.op("Less", signs, zero)
    return (emit.op("Where", apart, emit.op("Add", rest, y), rest),)


@handles(
    "Erfc",
    inputs=("x",),
    to="Erf",
    dtypes=("float16", "bfloat16", "float"),
    notes="computed as 1 - erf(x): an error of 1e-7 for float32, as large as the result itself where x > 4",
)
def erfc(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """One minus the error function, as in Keras' gelu."""
    x = node["x"]
    if x.dtype == TensorProto.DOUBLE:
        raise Unsupported("ONNX Runtime has no error function of double")
    return (emit.op("Sub", emit.like(1, x), emit.op("Erf", x)),)
