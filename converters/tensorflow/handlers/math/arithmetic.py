"""tf.raw_ops of each element by itself: sums, products, divisions, remainders, powers, rounding."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering import division
from onnx_sparse.converters.writing.lowering.arithmetic import squared_difference
from onnx_sparse.converters.writing.lowering.rounding import sign
from onnx_sparse.converters.writing.registry import lowered
from onnx_sparse.schemas.declaration import FLOATS, dtype_name

_NUMBERS = ("all numbers",)
_FLOAT_NAMES = tuple(map(dtype_name, FLOATS))
_PAIR = ("x", "y")

#: Operators of two tensors that ONNX has under another name, or the same.
_BINARY = {"Sub": "Sub", "Mul": "Mul", "LogicalAnd": "And", "LogicalOr": "Or"}


@handles(*_BINARY, to="Mul", dtypes=_NUMBERS)
def binary(node: Node, emit: Emitter) -> Tensor:
    """The operator that ONNX has."""
    return emit.op(_BINARY[node.op_type], node["x"], node["y"])


@handles("AddV2", "Add", to="Add", dtypes=("all numbers", "string"))
def add(node: Node, emit: Emitter) -> Tensor:
    """The sum; strings are joined."""
    x, y = node["x"], node["y"]
    if x.dtype == TensorProto.STRING:
        return emit.node("StringConcat", [x, y], [x.dtype])[0]
    return emit.op("Add", x, y)


@handles("AddN", to="Sum", dtypes=_NUMBERS)
def add_n(node: Node, emit: Emitter) -> Tensor:
    """The sum of tensors of one shape."""
    first, *rest = node.all("inputs")
    for tensor in rest:
        first = emit.op("Add", first, tensor)
    return first


@handles("RealDiv", "Div", to="Div", dtypes=_NUMBERS)
def divide(node: Node, emit: Emitter) -> Tensor:
    """The quotient; that of integers is cut off."""
    return emit.op("Div", node["x"], node["y"])


@handles("DivNoNan", to="Div", dtypes=_FLOAT_NAMES)
def divide_no_nan(node: Node, emit: Emitter) -> Tensor:
    """The quotient, or 0 where the divisor is 0."""
    x, y = node["x"], node["y"]
    zero = emit.like(0, x)
    return emit.op("Where", emit.op("Equal", y, zero), zero, emit.op("Div", x, y))


@handles("Maximum", "Minimum", to="Max", dtypes=_NUMBERS)
def extreme(node: Node, emit: Emitter) -> Tensor:
    """The larger or smaller of two."""
    return emit.extreme("Max" if node.op_type == "Maximum" else "Min", node["x"], node["y"])


@handles("Pow", to="Pow", dtypes=_NUMBERS, differs="powers of integers beyond 2^53 are rounded")
def power(node: Node, emit: Emitter) -> Tensor:
    """The power."""
    return emit.op("Pow", node["x"], node["y"])


@handles("Square", to="Mul", dtypes=_NUMBERS)
def square(node: Node, emit: Emitter) -> Tensor:
    """The square."""
    return emit.op("Mul", node["x"], node["x"])


@handles("Neg", "Abs", to="Neg", dtypes=_NUMBERS)
def signs(node: Node, emit: Emitter) -> Tensor:
    """The operator of the same name."""
    return emit.op(node.op_type, node["x"])


@handles("Reciprocal", "Inv", to="Reciprocal", dtypes=_NUMBERS)
def reciprocal(node: Node, emit: Emitter) -> Tensor:
    """One divided by each."""
    return emit.op("Div", emit.like(1, node["x"]), node["x"])


@handles("Ceil", "Floor", to="Ceil", dtypes=_FLOAT_NAMES)
def whole(node: Node, emit: Emitter) -> Tensor:
    """The next whole number."""
    return emit.op(node.op_type, node["x"])


@handles("Round", "Rint", to="Round", dtypes=_NUMBERS)
def rounded(node: Node, emit: Emitter) -> Tensor:
    """The nearest whole number, the even one of two."""
    if node.op_type == "Round" and node["x"].dtype not in FLOATS:
        raise Unsupported("TensorFlow's kernel does not keep integers as they are; tf.round has no node for them")
    return emit.op("Round", node["x"])


@handles("ClipByValue", to="Clip", dtypes=_NUMBERS)
def clip(node: Node, emit: Emitter) -> Tensor:
    """Each, at most the second and at least the first bound, which wins; a bound that is no number bounds nothing."""
    least, most = (_bound(node[f"clip_value_{end}"], sign, emit) for end, sign in (("min", -1), ("max", 1)))
    return emit.extreme("Max", emit.extreme("Min", node["t"], most), least)


def _bound(bound: Tensor, sign: int, emit: Emitter) -> Tensor:
    if bound.dtype not in FLOATS or (bound.value is not None and not np.isnan(bound.value.astype(np.float32)).any()):
        return bound
    return emit.op("Where", emit.op("IsNaN", bound), emit.like(sign * np.inf, bound), bound)


@handles("BiasAdd", "BiasAddV1", to="Add", dtypes=_NUMBERS)
def bias_add(node: Node, emit: Emitter) -> Tensor:
    """Add a vector along the channels: the last dimension, or in the format NCHW the second."""
    value, bias = node["value"], node["bias"]
    if node.op_type == "BiasAdd" and node.attributes["data_format"] == b"NCHW":
        bias = emit.op("Unsqueeze", bias, emit.constant(range(1, value.rank - 1))) if value.rank > 2 else bias
    return emit.op("Add", value, bias)


@handles("Cross", to="Mul", dtypes=_NUMBERS)
def cross_product(node: Node, emit: Emitter) -> Tensor:
    """The cross products of vectors of three numbers, along the last axis."""
    a, b = node["a"], node["b"]

    def turned(x: Tensor, by: int) -> Tensor:
        return emit.op("Gather", x, emit.constant([(k + by) % 3 for k in range(3)]), axis=-1)

    return emit.op("Sub", emit.op("Mul", turned(a, 1), turned(b, 2)), emit.op("Mul", turned(a, 2), turned(b, 1)))


handles("FloorDiv", inputs=_PAIR, to="Div", dtypes=_NUMBERS)(lowered(division.floor_div))
handles("FloorMod", inputs=_PAIR, to="Mod", dtypes=_NUMBERS)(lowered(division.floor_mod))
handles("TruncateDiv", inputs=_PAIR, to="Div", dtypes=_NUMBERS)(lowered(division.truncate_div))
handles("TruncateMod", "Mod", inputs=_PAIR, to="Mod", dtypes=_NUMBERS)(lowered(division.truncate_mod))
handles("SquaredDifference", inputs=_PAIR, to="Mul", dtypes=_NUMBERS)(lowered(squared_difference))
handles("Sign", inputs=("x",), to="Neg", dtypes=_NUMBERS)(lowered(sign))


@handles("MulNoNan", "Xdivy", "Xlogy", to="Where", dtypes=_FLOAT_NAMES)
def zero_whatever_the_other(node: Node, emit: Emitter) -> Tensor:
    """x * y, x / y, x * log(y); 0 where x is 0, or for MulNoNan where y is, even where the other is not finite."""
    x, y = node["x"], node["y"]
    zero = emit.like(0, x)
    if node.op_type == "Xdivy":
        result = emit.op("Div", x, y)
    else:
        result = emit.op("Mul", x, emit.op("Log", y) if node.op_type == "Xlogy" else y)
    decisive = y if node.op_type == "MulNoNan" else x
    return emit.op("Where", emit.op("Equal", decisive, zero), zero, result)
