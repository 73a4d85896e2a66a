"""tf.raw_ops that compute each element by itself: arithmetic, logic, activations, rounding, Cast."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node
from onnx_sparse.converters.tensorflow.importing.handlers.registry import handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.special_functions import inverse_error
from onnx_sparse.schemas.declaration import FLOATS, HALF_FLOATS, UNSIGNED_INTEGERS, dtype_name, numpy_dtype

_NUMBERS = ("all numbers",)
_FLOAT_NAMES = tuple(map(dtype_name, FLOATS))
_PAIR = ("x", "y")

#: Operators of two tensors that ONNX has under another name, or the same.
_BINARY = {"Sub": "Sub", "Mul": "Mul", "LogicalAnd": "And", "LogicalOr": "Or"}
#: Operators of floats that ONNX has.
_OF_FLOATS = {
    "Sqrt": "Sqrt", "Exp": "Exp", "Log": "Log", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "Sin": "Sin", "Cos": "Cos",
    "Tan": "Tan", "Asin": "Asin", "Acos": "Acos", "Atan": "Atan", "Sinh": "Sinh", "Cosh": "Cosh", "Asinh": "Asinh",
    "Acosh": "Acosh", "Atanh": "Atanh", "Erf": "Erf",
}  # fmt: skip
#: Activations, whose input TensorFlow calls features.
_ACTIVATIONS = {"Elu": "Elu", "Selu": "Selu", "Softplus": "Softplus", "Softsign": "Softsign"}


#: The unsigned integers by their number of bits.
_UNSIGNED = {8: TensorProto.UINT8, 16: TensorProto.UINT16, 32: TensorProto.UINT32, 64: TensorProto.UINT64}


@handles(*_BINARY, inputs=_PAIR, to="Mul", dtypes=_NUMBERS)
def binary(node: Node, emit: Emitter) -> Tensor:
    """The operator that ONNX has."""
    return emit.op(_BINARY[node.op_type], node["x"], node["y"])


@handles("AddV2", "Add", inputs=_PAIR, to="Add", dtypes=("all numbers", "string"))
def add(node: Node, emit: Emitter) -> Tensor:
    """The sum; strings are joined."""
    x, y = node["x"], node["y"]
    if x.dtype == TensorProto.STRING:
        return emit.node("StringConcat", [x, y], [x.dtype])[0]
    return emit.op("Add", x, y)


@handles("AddN", inputs=("inputs*",), to="Sum", dtypes=_NUMBERS)
def add_n(node: Node, emit: Emitter) -> Tensor:
    """The sum of tensors of one shape."""
    first, *rest = node.all("inputs")
    for tensor in rest:
        first = emit.op("Add", first, tensor)
    return first


@handles("RealDiv", "Div", inputs=_PAIR, to="Div", dtypes=_NUMBERS)
def divide(node: Node, emit: Emitter) -> Tensor:
    """The quotient; that of integers is cut off."""
    return emit.op("Div", node["x"], node["y"])


@handles("TruncateDiv", inputs=_PAIR, to="Div", dtypes=_NUMBERS)
def truncate_divide(node: Node, emit: Emitter) -> Tensor:
    """The quotient, rounded toward zero."""
    quotient = emit.op("Div", node["x"], node["y"])
    if quotient.dtype not in FLOATS:
        return quotient
    negative = emit.op("Less", quotient, emit.like(0, quotient))
    return emit.op("Where", negative, emit.op("Ceil", quotient), emit.op("Floor", quotient))


@handles("DivNoNan", inputs=_PAIR, to="Div", dtypes=_FLOAT_NAMES)
def divide_no_nan(node: Node, emit: Emitter) -> Tensor:
    """The quotient, or 0 where the divisor is 0."""
    x, y = node["x"], node["y"]
    zero = emit.like(0, x)
    return emit.op("Where", emit.op("Equal", y, zero), zero, emit.op("Div", x, y))


@handles("Maximum", "Minimum", inputs=_PAIR, to="Max", dtypes=_NUMBERS)
def extreme(node: Node, emit: Emitter) -> Tensor:
    """The larger or smaller of two."""
    return emit.extreme("Max" if node.op_type == "Maximum" else "Min", node["x"], node["y"])


@handles("Pow", inputs=_PAIR, to="Pow", dtypes=_NUMBERS, differs="powers of integers beyond 2^53 are rounded")
def power(node: Node, emit: Emitter) -> Tensor:
    """The power."""
    return emit.op("Pow", node["x"], node["y"])


@handles("SquaredDifference", inputs=_PAIR, to="Mul", dtypes=_NUMBERS)
def squared_difference(node: Node, emit: Emitter) -> Tensor:
    """The square of the difference."""
    difference = emit.op("Sub", node["x"], node["y"])
    return emit.op("Mul", difference, difference)


@handles("Square", inputs=("x",), to="Mul", dtypes=_NUMBERS)
def square(node: Node, emit: Emitter) -> Tensor:
    """The square."""
    return emit.op("Mul", node["x"], node["x"])


@handles("Neg", "Abs", "Sign", inputs=("x",), to="Neg", dtypes=_NUMBERS)
def signs(node: Node, emit: Emitter) -> Tensor:
    """The operator of the same name."""
    return emit.op(node.op_type, node["x"])


@handles("Reciprocal", "Inv", inputs=("x",), to="Reciprocal", dtypes=_NUMBERS)
def reciprocal(node: Node, emit: Emitter) -> Tensor:
    """One divided by each."""
    return emit.op("Div", emit.like(1, node["x"]), node["x"])


@handles(
    "Erfinv",
    inputs=("x",),
    to="Log",
    dtypes=("float",),
    differs="near -1 and 1, TensorFlow rounds 1 - x, which is wrong by up to 0.3 % of the result",
)
def inverse_error_function(node: Node, emit: Emitter) -> Tensor:
    """The y of which erf(y) is x, to the digits of float."""
    return inverse_error(emit, node["x"])


@handles("Rsqrt", inputs=("x",), to="Sqrt", dtypes=_FLOAT_NAMES)
def reciprocal_root(node: Node, emit: Emitter) -> Tensor:
    """One divided by the root."""
    x = emit.cast(node["x"], TensorProto.FLOAT) if node["x"].dtype in HALF_FLOATS else node["x"]
    return emit.cast(emit.op("Reciprocal", emit.op("Sqrt", x)), node["x"].dtype)


@handles(*_OF_FLOATS, inputs=("x",), to="Exp", dtypes=_FLOAT_NAMES)
def of_floats(node: Node, emit: Emitter) -> Tensor:
    """The operator that ONNX has."""
    return emit.op(_OF_FLOATS[node.op_type], node["x"])


@handles(*_ACTIVATIONS, inputs=("features",), to="Elu", dtypes=_FLOAT_NAMES)
def activation(node: Node, emit: Emitter) -> Tensor:
    """The activation that ONNX has."""
    if node.op_type == "Selu" and node["features"].dtype == TensorProto.DOUBLE:
        return _selu(node["features"], emit)
    return emit.op(_ACTIVATIONS[node.op_type], node["features"])


def _selu(x: Tensor, emit: Emitter) -> Tensor:
    """Selu with constants of double, which attributes do not hold."""
    scale, scaled_alpha = (emit.like(number, x) for number in (1.0507009873554804934, 1.7580993408473768599))
    negative = emit.op("Mul", scaled_alpha, emit.op("Sub", emit.op("Exp", x), emit.like(1, x)))
    return emit.op("Where", emit.op("Less", x, emit.like(0, x)), negative, emit.op("Mul", scale, x))


@handles("Relu", inputs=("features",), to="Relu", dtypes=_NUMBERS)
def relu(node: Node, emit: Emitter) -> Tensor:
    """The larger of each and 0."""
    x = node["features"]
    return x if x.dtype in UNSIGNED_INTEGERS else emit.op("Relu", x)


@handles("Relu6", inputs=("features",), to="Clip", dtypes=_NUMBERS)
def relu_6(node: Node, emit: Emitter) -> Tensor:
    """Each, at least 0 and at most 6."""
    x = node["features"]
    return emit.op("Min", emit.op("Max", x, emit.like(0, x)), emit.like(6, x))


@handles("LeakyRelu", inputs=("features",), to="LeakyRelu", dtypes=_FLOAT_NAMES)
def leaky_relu(node: Node, emit: Emitter) -> Tensor:
    """Each, or where it is negative, alpha times it."""
    x, alpha = node["features"], float(node.attributes["alpha"])
    if x.dtype != TensorProto.FLOAT:  # with alpha in the tensor's own type
        scaled = emit.op("Mul", x, emit.like(alpha, x))
        return emit.op("Where", emit.op("Greater", x, emit.like(0, x)), x, scaled)
    return emit.op("LeakyRelu", x, alpha=alpha)


@handles("Softmax", "LogSoftmax", inputs=("logits",), to="Softmax", dtypes=_FLOAT_NAMES)
def softmax(node: Node, emit: Emitter) -> Tensor:
    """Softmax along the last axis."""
    return emit.op(node.op_type, node["logits"], axis=-1)


@handles("Ceil", "Floor", inputs=("x",), to="Ceil", dtypes=_FLOAT_NAMES)
def whole(node: Node, emit: Emitter) -> Tensor:
    """The next whole number."""
    return emit.op(node.op_type, node["x"])


@handles("Round", "Rint", inputs=("x",), to="Round", dtypes=_NUMBERS)
def rounded(node: Node, emit: Emitter) -> Tensor:
    """The nearest whole number, the even one of two."""
    if node.op_type == "Round" and node["x"].dtype not in FLOATS:
        raise Unsupported("TensorFlow's kernel does not keep integers as they are; tf.round has no node for them")
    return emit.op("Round", node["x"])


@handles("IsNan", "IsInf", "IsFinite", inputs=("x",), to="IsNaN", dtypes=_FLOAT_NAMES)
def classify(node: Node, emit: Emitter) -> Tensor:
    """Whether each is not a number, infinite, or neither."""
    x = emit.cast(node["x"], TensorProto.FLOAT) if node["x"].dtype in HALF_FLOATS else node["x"]
    if node.op_type != "IsFinite":
        return emit.op("IsNaN" if node.op_type == "IsNan" else "IsInf", x)
    return emit.op("Not", emit.op("Or", emit.op("IsNaN", x), emit.op("IsInf", x)))


@handles("Equal", "NotEqual", inputs=_PAIR, to="Equal", dtypes=("every type",), ignored=("incompatible_shape_error",))
def equal(node: Node, emit: Emitter) -> Tensor:
    """Whether elements are equal; shapes that do not fit are an error here whatever the attribute says."""
    same = emit.op("Equal", node["x"], node["y"])
    return same if node.op_type == "Equal" else emit.op("Not", same)


@handles("LogicalNot", inputs=("x",), to="Not", dtypes=("bool",))
def logical_not(node: Node, emit: Emitter) -> Tensor:
    """Not."""
    return emit.op("Not", node["x"])


@handles("BitwiseAnd", "BitwiseOr", "BitwiseXor", inputs=_PAIR, to="BitwiseAnd", dtypes=("all integers",))
def bitwise(node: Node, emit: Emitter) -> Tensor:
    """The operator of the same name."""
    return emit.op(node.op_type, node["x"], node["y"])


@handles("Invert", inputs=("x",), to="BitwiseNot", dtypes=("all integers",))
def invert(node: Node, emit: Emitter) -> Tensor:
    """The complement of the bits."""
    return emit.op("BitwiseNot", node["x"])


@handles("ClipByValue", inputs=("t", "clip_value_min", "clip_value_max"), to="Clip", dtypes=_NUMBERS)
def clip(node: Node, emit: Emitter) -> Tensor:
    """Each, at least the first and at most the second bound."""
    return emit.extreme("Min", emit.extreme("Max", node["t"], node["clip_value_min"]), node["clip_value_max"])


@handles("Cast", inputs=("x",), to="Cast", dtypes=("all numbers", "bool"))
def cast(node: Node, emit: Emitter) -> Tensor:
    """The numbers in another type; floats that the integer type lacks have no defined value."""
    if node.attributes["Truncate"]:
        raise Unsupported("its attribute Truncate = True is not converted")
    x, dtype = node["x"], node.dtypes[0]
    if TensorProto.STRING in (x.dtype, dtype) and x.dtype != dtype:
        raise Unsupported("it casts strings")
    if x.dtype in FLOATS and dtype in UNSIGNED_INTEGERS and dtype != TensorProto.UINT64:
        return emit.cast(emit.cast(x, TensorProto.INT64), dtype)  # negative ones wrap, as in TensorFlow
    return emit.cast(x, dtype)


@handles("Bitcast", inputs=("input",), to="BitCast", dtypes=("none",))
def bitcast(node: Node, emit: Emitter) -> Tensor:
    """The same tensor, where the type stays what it is."""
    if node["input"].dtype != node.dtypes[0]:
        raise Unsupported("ONNX Runtime does not read bits as another type")
    return node["input"]


@handles("BiasAdd", inputs=("value", "bias"), to="Add", dtypes=_NUMBERS)
@handles("BiasAddV1", inputs=("value", "bias"), to="Add", dtypes=_NUMBERS)
def bias_add(node: Node, emit: Emitter) -> Tensor:
    """Add a vector along the channels: the last dimension, or in the format NCHW the second."""
    value, bias = node["value"], node["bias"]
    if node.op_type == "BiasAdd" and node.attributes["data_format"] == b"NCHW":
        bias = emit.op("Unsqueeze", bias, emit.constant(range(1, value.rank - 1))) if value.rank > 2 else bias
    return emit.op("Add", value, bias)


@handles("LeftShift", "RightShift", inputs=_PAIR, to="BitShift", dtypes=("all integers",))
def shift(node: Node, emit: Emitter) -> Tensor:
    """The bits moved; ONNX moves those of unsigned integers, as which signed ones are read."""
    x, y = node["x"], node["y"]
    number = np.iinfo(numpy_dtype(x.dtype))
    y = emit.extreme(
        "Max", emit.extreme("Min", y, emit.like(number.bits - 1, y)), emit.like(0, y)
    )  # TensorFlow's limit
    left = node.op_type == "LeftShift"
    direction = "LEFT" if left else "RIGHT"
    if x.dtype in UNSIGNED_INTEGERS:
        return emit.op("BitShift", x, y, direction=direction)
    unsigned = _UNSIGNED[number.bits]
    by = emit.cast(y, unsigned)
    if left:
        return emit.cast(emit.op("BitShift", emit.cast(x, unsigned), by, direction=direction), x.dtype)
    # The sign stays: of a negative number, the complement is moved, and turned back.
    is_negative = emit.op("Less", x, emit.like(0, x))
    positive = emit.op("Where", is_negative, emit.op("BitwiseNot", x), x)
    moved = emit.cast(emit.op("BitShift", emit.cast(positive, unsigned), by, direction=direction), x.dtype)
    return emit.op("Where", is_negative, emit.op("BitwiseNot", moved), moved)


@handles("ApproximateEqual", inputs=_PAIR, to="Less", dtypes=_NUMBERS)
def approximately_equal(node: Node, emit: Emitter) -> Tensor:
    """Whether the distance of elements is below the tolerance."""
    x, y = node["x"], node["y"]
    if x.dtype not in FLOATS:
        raise Unsupported("ONNX Runtime's and TensorFlow's distances of integers are cut off in different ways")
    return emit.op("Less", emit.op("Abs", emit.op("Sub", x, y)), emit.like(float(node.attributes["tolerance"]), x))


@handles("Cross", inputs=("a", "b"), to="Mul", dtypes=_NUMBERS)
def cross_product(node: Node, emit: Emitter) -> Tensor:
    """The cross products of vectors of three numbers, along the last axis."""
    a, b = node["a"], node["b"]

    def turned(x: Tensor, by: int) -> Tensor:
        return emit.op("Gather", x, emit.constant([(k + by) % 3 for k in range(3)]), axis=-1)

    return emit.op("Sub", emit.op("Mul", turned(a, 1), turned(b, 2)), emit.op("Mul", turned(a, 2), turned(b, 1)))


@handles(
    "CheckNumerics",
    inputs=("tensor",),
    to="Identity",
    dtypes=_FLOAT_NAMES,
    differs="numbers that are not finite are not an error",
    ignored=("message",),
)
def check_numerics(node: Node, emit: Emitter) -> Tensor:
    """The same tensor; TensorFlow raises where it has numbers that are not finite."""
    return node["tensor"]
