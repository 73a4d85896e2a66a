"""tf.raw_ops.FloorDiv, FloorMod, Erfc, ScatterNd.

tf2onnx rounds integer quotients toward zero, and keeps only one of several updates of the same element.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, Unsupported, handles
from onnx_sparse.schemas.declaration import FLOATS, HALF_FLOATS, NUMBERS, UNSIGNED_INTEGERS, numpy_dtype

_NUMBERS = ("all numbers",)


@handles("FloorDiv", inputs=("x", "y"), to="Div", dtypes=_NUMBERS)
def floor_div(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """A quotient, rounded down; ONNX rounds integer quotients toward zero."""
    x, y = node["x"], node["y"]
    quotient = emit.like("Div", x, y)
    if x.dtype in FLOATS:
        return (emit.like("Floor", quotient),)
    if x.dtype in UNSIGNED_INTEGERS:
        return (quotient,)
    # One remainder has the sign of y, the other that of x; where they differ, the quotient is one too large.
    rest = emit.like("Sub", x, emit.like("Mul", quotient, y))
    same = emit.standard("Equal", emit.like("Mod", x, y), rest, dtype=TensorProto.BOOL)
    too_large = emit.cast(emit.like("Not", same), x.dtype)
    return (emit.like("Sub", quotient, too_large),)


@handles("FloorMod", inputs=("x", "y"), to="Mod", dtypes=_NUMBERS)
def floor_mod(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """The remainder of division rounded down: it has the sign of the divisor."""
    x, y = node["x"], node["y"]
    if x.dtype not in FLOATS:
        return (emit.like("Mod", x, y),)
    rest = emit.like("Mod", x, y, fmod=1)
    signs = emit.like("Mul", emit.like("Sign", rest), emit.like("Sign", y))
    zero = emit.constant(np.array(0, numpy_dtype(x.dtype)))
    apart = emit.standard("Less", signs, zero, dtype=TensorProto.BOOL)
    return (emit.where(apart, emit.like("Add", rest, y), rest),)


@handles(
    "Erfc",
    inputs=("x",),
    to="Erf",
    dtypes=("float16", "bfloat16", "float"),
    notes="computed as 1 - erf(x): an error of 1e-7 for float32, as large as the result itself where x > 4",
)
def erfc(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """One minus the error function, as in Keras' gelu."""
    x = node["x"]
    if x.dtype == TensorProto.DOUBLE:
        raise Unsupported("ONNX Runtime has no error function of double")
    return (emit.like("Sub", emit.constant(np.array(1, numpy_dtype(x.dtype))), emit.like("Erf", x)),)


@handles(
    "ScatterNd",
    inputs=("indices", "updates", "shape"),
    to="ScatterND",
    dtypes=(*_NUMBERS, "bool"),
    notes="negative coordinates count from the end, while TensorFlow raises; half floats are summed as float32",
)
def scatter_nd(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """Zeros to which the updates are added at their positions."""
    updates = node["updates"]
    if updates.dtype not in (*NUMBERS, TensorProto.BOOL):
        raise Unsupported("only numbers and booleans can be added up")
    dtype = TensorProto.FLOAT if updates.dtype in HALF_FLOATS else updates.dtype
    if dtype == TensorProto.BOOL:  # any number of True but 0 is True
        dtype = TensorProto.INT32
    zero = emit.constant(np.array(0, numpy_dtype(dtype)))
    zeros = emit.like("Expand", zero, emit.cast(node["shape"], TensorProto.INT64))
    indices = emit.cast(node["indices"], TensorProto.INT64)
    sums = emit.like("ScatterND", zeros, indices, emit.cast(updates, dtype), reduction="add")
    return (emit.cast(sums, updates.dtype),)
