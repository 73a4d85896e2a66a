"""tf.raw_ops of truth, bits and types: comparisons, LogicalNot, BitwiseAnd, shifts, IsNan, Cast."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.arithmetic import is_finite
from onnx_sparse.converters.writing.lowering.bits import reinterpreted
from onnx_sparse.converters.writing.lowering.shifts import shift_left, shift_right
from onnx_sparse.converters.writing.registry import lowered
from onnx_sparse.schemas.declaration import FLOATS, UNSIGNED_INTEGERS, dtype_name

_NUMBERS = ("all numbers",)
_FLOAT_NAMES = tuple(map(dtype_name, FLOATS))
_PAIR = ("x", "y")


@handles("IsNan", "IsInf", to="IsNaN", dtypes=_FLOAT_NAMES)
def classify(node: Node, emit: Emitter) -> Tensor:
    """Whether each is not a number, or infinite."""
    return emit.op("IsNaN" if node.op_type == "IsNan" else "IsInf", emit.wide(node["x"]))


@handles("Equal", "NotEqual", to="Equal", dtypes=("every type",), ignored=("incompatible_shape_error",))
def equal(node: Node, emit: Emitter) -> Tensor:
    """Whether elements are equal; shapes that do not fit are an error here whatever the attribute says."""
    same = emit.op("Equal", node["x"], node["y"])
    return same if node.op_type == "Equal" else emit.op("Not", same)


@handles("Less", "LessEqual", "Greater", "GreaterEqual", to="Less", dtypes=("all numbers",))
def compare(node: Node, emit: Emitter) -> Tensor:
    """Compare in the given type; in float32, different large integers would be equal."""
    op_type = {"LessEqual": "LessOrEqual", "GreaterEqual": "GreaterOrEqual"}.get(node.op_type, node.op_type)
    return emit.op(op_type, node["x"], node["y"])


@handles("LogicalNot", to="Not", dtypes=("bool",))
def logical_not(node: Node, emit: Emitter) -> Tensor:
    """Not."""
    return emit.op("Not", node["x"])


@handles("BitwiseAnd", "BitwiseOr", "BitwiseXor", to="BitwiseAnd", dtypes=("all integers",))
def bitwise(node: Node, emit: Emitter) -> Tensor:
    """The operator of the same name."""
    return emit.op(node.op_type, node["x"], node["y"])


@handles("Invert", to="BitwiseNot", dtypes=("all integers",))
def invert(node: Node, emit: Emitter) -> Tensor:
    """The complement of the bits."""
    return emit.op("BitwiseNot", node["x"])


#: The bits of the fractions of floats.
_PRECISION = dict[int, int](
    {TensorProto.BFLOAT16: 7, TensorProto.FLOAT16: 10, TensorProto.FLOAT: 23, TensorProto.DOUBLE: 52}
)


@handles("Cast", to="Cast", dtypes=("all numbers", "bool"))
def cast(node: Node, emit: Emitter) -> Tensor:
    """The numbers in another type; floats that the integer type lacks have no defined value."""
    x, dtype = node["x"], node.dtypes[0]
    is_narrower = x.dtype in FLOATS and dtype in FLOATS and _PRECISION[dtype] < _PRECISION[x.dtype]
    if node.attributes["Truncate"] and is_narrower:  # between others, TensorFlow does not read it
        raise Unsupported("its attribute Truncate = True, which cuts bits off instead of rounding, is not converted")
    if TensorProto.STRING in (x.dtype, dtype) and x.dtype != dtype:
        raise Unsupported("it casts strings")
    if x.dtype in FLOATS and dtype in UNSIGNED_INTEGERS and dtype != TensorProto.UINT64:
        return emit.cast(emit.cast(x, TensorProto.INT64), dtype)  # negative ones wrap, as in TensorFlow
    return emit.cast(x, dtype)


@handles(
    "Bitcast",
    to="Cast",
    dtypes=("all integers", "float16", "bfloat16", "float"),
    notes="other types only of constants",
)
def bitcast(node: Node, emit: Emitter) -> Tensor:
    """The same bits as another type; of NaN, those of the quiet one."""
    return reinterpreted(emit, node["input"], node.dtypes[0])


handles("LeftShift", inputs=_PAIR, to="BitShift", dtypes=("all integers",))(lowered(shift_left))
handles("RightShift", inputs=_PAIR, to="BitShift", dtypes=("all integers",))(lowered(shift_right))
handles("IsFinite", inputs=("x",), to="IsNaN", dtypes=_FLOAT_NAMES)(lowered(is_finite))


@handles("ApproximateEqual", to="Less", dtypes=_NUMBERS)
def approximately_equal(node: Node, emit: Emitter) -> Tensor:
    """Whether the distance of elements is below the tolerance."""
    x, y = node["x"], node["y"]
    if x.dtype not in FLOATS:
        raise Unsupported("ONNX Runtime's and TensorFlow's distances of integers are cut off in different ways")
    return emit.op("Less", emit.op("Abs", emit.op("Sub", x, y)), emit.like(float(node.attributes["tolerance"]), x))


@handles(
    "CheckNumerics",
    to="Identity",
    dtypes=_FLOAT_NAMES,
    differs="numbers that are not finite are not an error",
    ignored=("message",),
)
def check_numerics(node: Node, emit: Emitter) -> Tensor:
    """The same tensor; TensorFlow raises where it has numbers that are not finite."""
    return node["tensor"]
