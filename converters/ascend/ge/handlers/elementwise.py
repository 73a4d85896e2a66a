"""GE's elementwise operators, casts, selections and activations; half floats are computed in float32."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import select
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.fill import constant_of
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import activations, arithmetic, bits, division, rounding
from onnx_sparse.converters.writing.lowering.selecting import select_rows
from onnx_sparse.converters.writing.registry import lowered
from onnx_sparse.schemas.declaration import FLOATS

_BINARY = {
    "Add": "Add",
    "AddV2": "Add",
    "Sub": "Sub",
    "Mul": "Mul",
    "Div": "Div",
    "RealDiv": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
}
_COMPARISONS = {
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Equal": "Equal",
}
_UNARY = ("Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs", "Erf", "Sin", "Cos", "Tan", "Reciprocal")
#: Functions that leave an integer as it is.
_ROUNDING = ("Floor", "Ceil", "Round")


@handles("Identity", "TensorMove", "IdentityN", to="Identity")
def identity(node: Node, emit: AscendEmitter) -> Results:
    """Identity(x), TensorMove(x), IdentityN(x...)."""
    return node.take(1, max(len(node.inputs), 1) if node.op_type == "IdentityN" else 1)


@handles("Cast", to="Cast", defaults={"Truncate": False})
def cast(node: Node, emit: AscendEmitter) -> Tensor:
    """Cast(x | dst_type), whose attribute is an aclDataType number."""
    (x,) = node.take(1)
    number = node.integer("dst_type")
    if number not in ACL:
        raise Unsupported(f"dst_type {number} is not an element type that ONNX has")
    return emit.cast(x, ACL[number])


@handles(*_BINARY, to=_BINARY)
def binary(node: Node, emit: AscendEmitter) -> Tensor:
    """An operator of x1 and x2, which broadcast."""
    return emit.arithmetic(_BINARY[node.op_type], *node.take(2))


@handles("Pow", to="Pow")
def power(node: Node, emit: AscendEmitter) -> Tensor:
    """Pow(x1, x2): the powers of integers wrap, as in numpy."""
    x, y = node.take(2)
    if x.dtype in FLOATS or x.dtype != y.dtype or x.dtype in (TensorProto.INT32, TensorProto.INT64):
        return emit.arithmetic("Pow", x, y)
    return emit.cast(emit.op("Pow", *(emit.cast(tensor, TensorProto.INT64) for tensor in (x, y))), x.dtype)


@handles(*_COMPARISONS, to=_COMPARISONS)
def comparison(node: Node, emit: AscendEmitter) -> Tensor:
    """A comparison of x1 and x2, a bool."""
    return emit.arithmetic(_COMPARISONS[node.op_type], *node.take(2))


@handles("NotEqual", to="Equal, Not")
def not_equal(node: Node, emit: AscendEmitter) -> Tensor:
    """NotEqual(x1, x2)."""
    return emit.op("Not", emit.arithmetic("Equal", *node.take(2)))


@handles("LogicalNot", to="Not")
def logical_not(node: Node, emit: AscendEmitter) -> Tensor:
    """LogicalNot(x)."""
    return emit.op("Not", *node.take(1))


@handles("LogicalAnd", to="And")
@handles("LogicalOr", to="Or")
@handles("LogicalXor", to="Xor")
def logical(node: Node, emit: AscendEmitter) -> Tensor:
    """LogicalAnd(x1, x2), LogicalOr(x1, x2), LogicalXor(x1, x2)."""
    return emit.op(node.op_type.removeprefix("Logical"), *node.take(2))


@handles("Select", "SelectV2", to="Where")
def choose(node: Node, emit: AscendEmitter) -> Tensor:
    """Select(condition, x1, x2), which may have one condition for each row; SelectV2, which broadcasts."""
    condition, x, y = node.take(3)
    condition = emit.cast(condition, TensorProto.BOOL)
    if node.op_type == "Select" and x.dtype == y.dtype:
        return select_rows(emit, condition, x, y)
    return select(emit, condition, x, y)


@handles("Muls", to="Mul")
@handles("Adds", to="Add")
def with_number(node: Node, emit: AscendEmitter) -> Tensor:
    """Muls(x | value), Adds(x | value)."""
    (x,) = node.take(1)
    name = {"Muls": "Mul", "Adds": "Add"}[node.op_type]
    if x.dtype not in FLOATS:
        return emit.op(name, x, constant_of(emit, node.number("value"), x.dtype))
    return emit.in_float32(lambda wide: emit.op(name, wide, constant_of(emit, node.number("value"), wide.dtype)), x)


@handles(*_UNARY)
def unary(node: Node, emit: AscendEmitter) -> Tensor:
    """A function of x."""
    return emit.in_float32(lambda wide: emit.op(node.op_type, wide), *node.take(1))


@handles("Relu", to="Relu, Max")
def relu(node: Node, emit: AscendEmitter) -> Tensor:
    """Relu(x). For integers it is Max(x, 0), because ONNX Runtime has few integer kernels of Relu."""
    (x,) = node.take(1)
    if x.dtype not in FLOATS:
        return emit.extreme("Max", x, emit.like(0, x), x.shape)
    return emit.in_float32(lambda wide: emit.op("Relu", wide), x)


@handles("Gelu", to="Tanh, Mul, Add", notes="the approximation with tanh, as GE defines it")
def gelu(node: Node, emit: AscendEmitter) -> Tensor:
    """Gelu(x)."""
    return activations.gelu(emit, *node.take(1), exact=False)


@handles("ClipByValue", "ClipByValueV2", to="Max, Min")
def clip_by_value(node: Node, emit: AscendEmitter) -> Tensor:
    """ClipByValue(x, clip_value_min, clip_value_max)."""
    x, low, high = node.take(3)
    return emit.arithmetic("Min", emit.arithmetic("Max", x, low), high)


@handles(*_ROUNDING)
def whole(node: Node, emit: AscendEmitter) -> Tensor:
    """Floor(x), Ceil(x), Round(x), to even; integers stay as they are."""
    (x,) = node.take(1)
    return x if x.dtype not in FLOATS else emit.in_float32(lambda wide: emit.op(node.op_type, wide), x)


@handles("Rint", to="Round")
def rint(node: Node, emit: AscendEmitter) -> Tensor:
    """Rint(x)."""
    return emit.in_float32(lambda wide: emit.op("Round", wide), *node.take(1))


@handles("IsNan", "IsInf", to="IsNaN, IsInf")
def is_not_finite(node: Node, emit: AscendEmitter) -> Tensor:
    """IsNan(x), IsInf(x)."""
    (x,) = node.take(1)
    return emit.op({"IsNan": "IsNaN"}.get(node.op_type, "IsInf"), emit.wide(x), dtype=TensorProto.BOOL)


@handles("Square", to="Mul")
def square(node: Node, emit: AscendEmitter) -> Tensor:
    """Square(x)."""
    (x,) = node.take(1)
    return emit.arithmetic("Mul", x, x)


handles("SquaredDifference", to="Sub, Mul")(lowered(arithmetic.squared_difference))
handles("Rsqrt", to="Sqrt, Reciprocal")(lowered(arithmetic.rsqrt))
handles("Sign", to="Sign")(lowered(rounding.sign))
handles("Trunc", to="Less, Ceil, Floor, Where")(lowered(rounding.truncated))


@handles("FloorMod", to="Mod, Div, Floor, Mul, Sub")
def floor_mod(node: Node, emit: AscendEmitter) -> Tensor:
    """FloorMod(x1, x2): what is left, of the divisor's sign."""
    return emit.in_float32(lambda x, y: division.floor_mod(emit, x, y), *node.take(2))


@handles("FloorDiv", to="Mod, Sub, Div, Floor")
def floor_div(node: Node, emit: AscendEmitter) -> Tensor:
    """FloorDiv(x1, x2), rounded toward negative infinity."""
    return emit.in_float32(lambda x, y: division.floor_div(emit, x, y), *node.take(2))


@handles("AxpyV2", to="Mul, Add")
@handles("Axpy", to="Mul, Add")
def axpy(node: Node, emit: AscendEmitter) -> Tensor:
    """AxpyV2(x1, x2, alpha), Axpy(x1, x2 | alpha): x1 + alpha * x2."""
    x, y, *given = node.take(2, 3)
    wide = emit.wide(x)
    factor = emit.cast(given[0], wide.dtype) if given else emit.like(node.number("alpha"), wide)
    return emit.cast(emit.op("Add", wide, emit.op("Mul", emit.cast(y, wide.dtype), factor)), x.dtype)


@handles("AddN", to="Add")
def add_n(node: Node, emit: AscendEmitter) -> Tensor:
    """AddN(x...): the sum of all."""
    first, *rest = node.take(1, max(len(node.inputs), 1))
    total = emit.wide(first)
    for tensor in rest:
        total = emit.op("Add", total, emit.cast(tensor, total.dtype))
    return emit.cast(total, first.dtype)


@handles("BiasAdd", to="Add")
def bias_add(node: Node, emit: AscendEmitter) -> Tensor:
    """BiasAdd(x, bias | data_format): the bias is along the last axis, of NCHW along the second."""
    x, bias = node.take(2)
    if str(node.attributes.get("data_format", "NHWC")) in ("NCHW", "NCDHW"):
        bias = emit.op("Unsqueeze", bias, emit.constant([*range(1, x.rank - 1)])) if x.rank > 2 else bias
    return emit.arithmetic("Add", x, bias)


@handles(
    "Bitcast",
    to="Cast, Identity",
    notes="of constants, integers and float32",
)
def bitcast(node: Node, emit: AscendEmitter) -> Tensor:
    """Bitcast(x | type): the same bits as another element type."""
    (x,) = node.take(1)
    number = node.integer("type")
    dtype = ACL.get(number)
    if dtype is None:
        raise Unsupported(f"type {number} is not an element type that ONNX has")
    return bits.reinterpreted(emit, x, dtype)
