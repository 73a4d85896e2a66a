"""GE's elementwise operators, casts, selections and activations; half floats are computed in float32."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import gelu as gelu_of
from onnx_sparse.converters.ascend.compositions import select
from onnx_sparse.converters.ascend.dtypes import ACL, FLOATS
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.ascend.ge.handlers.fill import constant_of
from onnx_sparse.converters.ascend.ge.handlers.registry import Operator, Results, handles
from onnx_sparse.converters.ascend.tensors import Unsupported

_BINARY = {
    "Add": "Add",
    "AddV2": "Add",
    "Sub": "Sub",
    "Mul": "Mul",
    "Div": "Div",
    "RealDiv": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "Pow": "Pow",
}
_COMPARISONS = {
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Equal": "Equal",
}
_UNARY = {
    "Relu": "Relu",
    "Sigmoid": "Sigmoid",
    "Tanh": "Tanh",
    "Exp": "Exp",
    "Log": "Log",
    "Sqrt": "Sqrt",
    "Neg": "Neg",
    "Abs": "Abs",
    "Erf": "Erf",
    "Sin": "Sin",
    "Cos": "Cos",
    "Reciprocal": "Reciprocal",
}


@handles("Identity", to="Identity")
def identity(op: Operator, emit: Emitter) -> Results:
    """Identity(x)."""
    return op.take(1)


@handles("Cast", to="Cast")
def cast(op: Operator, emit: Emitter) -> Results:
    """Cast(x | dst_type), whose attribute is in the numbering of aclDataType."""
    (x,) = op.take(1)
    number = op.integer("dst_type")
    if number not in ACL:
        raise Unsupported(f"dst_type {number} is not an element type that ONNX has")
    return (emit.cast(x, ACL[number]),)


@handles("Add", "AddV2", to="Add")
@handles("Sub", to="Sub")
@handles("Mul", to="Mul")
@handles("Div", "RealDiv", to="Div")
@handles("Maximum", to="Max")
@handles("Minimum", to="Min")
@handles("Pow", to="Pow")
def binary(op: Operator, emit: Emitter) -> Results:
    """An operator of x1 and x2, which broadcast."""
    return (emit.arithmetic(_BINARY[op.op_type], *op.take(2)),)


@handles("Less", to="Less")
@handles("LessEqual", to="LessOrEqual")
@handles("Greater", to="Greater")
@handles("GreaterEqual", to="GreaterOrEqual")
@handles("Equal", to="Equal")
def comparison(op: Operator, emit: Emitter) -> Results:
    """A comparison of x1 and x2, a bool."""
    return (emit.arithmetic(_COMPARISONS[op.op_type], *op.take(2), dtype=TensorProto.BOOL),)


@handles("NotEqual", to="Equal, Not")
def not_equal(op: Operator, emit: Emitter) -> Results:
    """NotEqual(x1, x2)."""
    return (emit.op("Not", emit.arithmetic("Equal", *op.take(2), dtype=TensorProto.BOOL)),)


@handles("LogicalNot", to="Not")
def logical_not(op: Operator, emit: Emitter) -> Results:
    """LogicalNot(x)."""
    return (emit.op("Not", *op.take(1)),)


@handles("LogicalAnd", to="And")
@handles("LogicalOr", to="Or")
def logical(op: Operator, emit: Emitter) -> Results:
    """LogicalAnd(x1, x2), LogicalOr(x1, x2)."""
    return (emit.op(op.op_type.removeprefix("Logical"), *op.take(2)),)


@handles("Select", "SelectV2", to="Where")
def choose(op: Operator, emit: Emitter) -> Results:
    """Select(condition, x1, x2), whose condition may be one for each row; SelectV2, which broadcasts."""
    condition, x, y = op.take(3)
    if op.op_type == "Select" and condition.rank == 1 and x.rank > 1:
        condition = emit.reshape(condition, [condition.dims[0], *[1] * (x.rank - 1)])
    return (select(emit, emit.cast(condition, TensorProto.BOOL), x, y),)


@handles("Muls", to="Mul")
@handles("Adds", to="Add")
def with_number(op: Operator, emit: Emitter) -> Results:
    """Muls(x | value), Adds(x | value)."""
    (x,) = op.take(1)
    name = {"Muls": "Mul", "Adds": "Add"}[op.op_type]
    if x.dtype not in FLOATS:
        return (emit.op(name, x, constant_of(emit, op.real("value"), x.dtype)),)
    return (emit.in_float32(lambda wide: emit.op(name, wide, constant_of(emit, op.real("value"), wide.dtype)), x),)


@handles("Relu", to="Relu")
@handles("Sigmoid", to="Sigmoid")
@handles("Tanh", to="Tanh")
@handles("Exp", to="Exp")
@handles("Log", to="Log")
@handles("Sqrt", to="Sqrt")
@handles("Neg", to="Neg")
@handles("Abs", to="Abs")
@handles("Erf", to="Erf")
@handles("Sin", to="Sin")
@handles("Cos", to="Cos")
@handles("Reciprocal", to="Reciprocal")
def unary(op: Operator, emit: Emitter) -> Results:
    """A function of x."""
    return (emit.in_float32(lambda wide: emit.op(_UNARY[op.op_type], wide), *op.take(1)),)


@handles("Rsqrt", to="Sqrt, Reciprocal")
def rsqrt(op: Operator, emit: Emitter) -> Results:
    """Rsqrt(x)."""
    return (emit.in_float32(lambda wide: emit.op("Reciprocal", emit.op("Sqrt", wide)), *op.take(1)),)


@handles("Gelu", to="Tanh, Mul, Add", notes="the approximation with tanh, as GE defines it")
def gelu(op: Operator, emit: Emitter) -> Results:
    """Gelu(x)."""
    return (emit.in_float32(lambda wide: gelu_of(emit, wide, exact=False), *op.take(1)),)


@handles("ClipByValue", to="Max, Min")
def clip_by_value(op: Operator, emit: Emitter) -> Results:
    """ClipByValue(x, clip_value_min, clip_value_max)."""
    x, low, high = op.take(3)
    return (emit.arithmetic("Min", emit.arithmetic("Max", x, low), high),)
