"""tf.raw_ops.FloorDiv, FloorMod, TruncateMod, Erfc, Log1p, Expm1, Atan2, MulNoNan, Xdivy, Xlogy, L2Loss."""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing import division
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import FLOATS, HALF_FLOATS, dtype_name

_NUMBERS = ("all numbers",)
_FLOAT_NAMES = tuple(map(dtype_name, FLOATS))


@handles("FloorDiv", inputs=("x", "y"), to="Div", dtypes=_NUMBERS)
def floor_div(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """A quotient, rounded down."""
    return (division.floor_div(emit, node["x"], node["y"]),)


@handles("FloorMod", inputs=("x", "y"), to="Mod", dtypes=_NUMBERS)
def floor_mod(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The remainder of division rounded down: it has the sign of the divisor."""
    return (division.floor_mod(emit, node["x"], node["y"]),)


@handles(
    "Erfc",
    inputs=("x",),
    to="Erf",
    dtypes=("float16", "bfloat16", "float"),
    differs="computed as 1 - erf(x): an error of 1e-7 for float32, as large as the result itself where x > 4",
)
def erfc(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """One minus the error function, as in Keras' gelu."""
    x = node["x"]
    if x.dtype == TensorProto.DOUBLE:
        raise Unsupported("ONNX Runtime has no error function of double")
    return (emit.op("Sub", emit.like(1, x), emit.op("Erf", x)),)


@handles("Log1p", inputs=("x",), to="Log", dtypes=_FLOAT_NAMES)
def log1p(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """log(1 + x), exact to a few units in the last place for small x, too.

    Rounding 1 + x to u loses digits of x, but log(u) / (u - 1) changes little with u, and x times it has them again
    (W. Kahan).
    """
    x = _widened(node["x"], emit)
    one = emit.like(1, x)
    u = emit.op("Add", one, x)
    rounded = emit.op("Sub", u, one)
    log = emit.op("Log", u)
    exact = emit.op("Mul", x, emit.op("Div", log, rounded))
    large = emit.op("Where", emit.op("Equal", rounded, u), log, exact)  # infinity, too
    small = emit.op("Equal", u, one)
    return (emit.cast(emit.op("Where", small, x, large), node["x"].dtype),)


@handles("Expm1", inputs=("x",), to="Exp", dtypes=_FLOAT_NAMES)
def expm1(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """exp(x) - 1, exact to a few units in the last place for small x, too; see log1p."""
    x = _widened(node["x"], emit)
    one = emit.like(1, x)
    u = emit.op("Exp", x)
    rounded = emit.op("Sub", u, one)
    exact = emit.op("Mul", x, emit.op("Div", rounded, emit.op("Log", u)))
    far = emit.op("Or", emit.op("Equal", rounded, u), emit.op("Equal", rounded, emit.like(-1, x)))
    large = emit.op("Where", far, rounded, exact)
    small = emit.op("Equal", u, one)
    return (emit.cast(emit.op("Where", small, x, large), node["x"].dtype),)


@handles("MulNoNan", "Xdivy", "Xlogy", inputs=("x", "y"), to="Where", dtypes=_FLOAT_NAMES)
def zero_whatever_the_other(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """x * y, x / y, x * log(y); 0 where x is 0, or for MulNoNan where y is, even where the other is not finite."""
    x, y = node["x"], node["y"]
    zero = emit.like(0, x)
    if node.op_type == "Xdivy":
        result = emit.op("Div", x, y)
    else:
        result = emit.op("Mul", x, emit.op("Log", y) if node.op_type == "Xlogy" else y)
    decisive = y if node.op_type == "MulNoNan" else x
    return (emit.op("Where", emit.op("Equal", decisive, zero), zero, result),)


@handles("TruncateMod", "Mod", inputs=("x", "y"), to="Mod", dtypes=_NUMBERS)
def truncate_mod(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The remainder of division rounded toward zero: it has the sign of the dividend."""
    return (emit.op("Mod", node["x"], node["y"], fmod=1),)


@handles(
    "Atan2",
    inputs=("y", "x"),
    to="Atan",
    dtypes=("float16", "bfloat16", "float"),
)
def atan2(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The angle of a point, with the quadrants of infinities and signed zeros."""
    y, x = (_widened(node[name], emit) for name in ("y", "x"))
    zero, pi = emit.like(0, x), emit.like(math.pi, x)
    height, width = emit.op("Abs", y), emit.op("Abs", x)
    of_equals = emit.op("Where", emit.op("Equal", height, zero), zero, emit.like(1, x))  # not 0 / 0, nor inf / inf
    slope = emit.op("Where", emit.op("Equal", height, width), of_equals, emit.op("Div", height, width))
    angle = emit.op("Atan", slope)
    angle = emit.op("Where", _has_sign(x, emit), emit.op("Sub", pi, angle), angle)
    angle = emit.op("Where", _has_sign(y, emit), emit.op("Neg", angle), angle)
    return (emit.cast(angle, node["x"].dtype),)


def _has_sign(x: Tensor, emit: Emitter) -> Tensor:
    zero = emit.like(0, x)
    return emit.op("Less", emit.op("Where", emit.op("Equal", x, zero), emit.op("Reciprocal", x), x), zero)


def _widened(x: Tensor, emit: Emitter) -> Tensor:
    return emit.cast(x, TensorProto.FLOAT) if x.dtype in HALF_FLOATS else x


@handles("L2Loss", inputs=("t",), to="ReduceSum", dtypes=_FLOAT_NAMES)
def l2_loss(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Half the sum of the squares."""
    t = emit.op("Reshape", node["t"], emit.constant([-1]))
    total = emit.op("ReduceSum", emit.op("Mul", t, t), emit.constant([0]), keepdims=0)
    return (emit.op("Mul", total, emit.like(0.5, t)),)
