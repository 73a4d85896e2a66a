"""tf.raw_ops.FloorDiv, FloorMod, Erfc, ScatterNd.

tf2onnx rounds integer quotients toward zero, and keeps only one of several updates of the same element.
"""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.schemas.declaration import FLOATS, HALF_FLOATS, NUMBERS, UNSIGNED_INTEGERS

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


@handles(
    "ScatterNd",
    inputs=("indices", "updates", "shape"),
    to="ScatterND",
    dtypes=(*_NUMBERS, "bool"),
    notes="negative coordinates count from the end, while TensorFlow raises; half floats are summed as float32",
)
def scatter_nd(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Zeros to which the updates are added at their positions."""
    updates = node["updates"]
    if updates.dtype not in (*NUMBERS, TensorProto.BOOL):
        raise Unsupported("only numbers and booleans can be added up")
    dtype = TensorProto.FLOAT if updates.dtype in HALF_FLOATS else updates.dtype
    if dtype == TensorProto.BOOL:  # any number of True but 0 is True
        dtype = TensorProto.INT32
    zero = emit.constant(0, dtype)
    zeros = emit.op("Expand", zero, emit.cast(node["shape"], TensorProto.INT64))
    indices = emit.cast(node["indices"], TensorProto.INT64)
    sums = emit.op("ScatterND", zeros, indices, emit.cast(updates, dtype), reduction="add")
    return (emit.cast(sums, updates.dtype),)
