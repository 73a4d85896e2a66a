"""GE's elementwise operators, casts, selections and activations; half floats are computed in float32."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import gelu as gelu_of
from onnx_sparse.converters.ascend.compositions import select
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.ascend.ge.handlers.fill import constant_of
from onnx_sparse.converters.ascend.ge.handlers.registry import Operator, Results, handles, handles_each
from onnx_sparse.converters.ascend.tensors import Unsupported
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
    "Pow": "Pow",
}
_COMPARISONS = {
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Equal": "Equal",
}
_UNARY = ("Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs", "Erf", "Sin", "Cos", "Reciprocal")


@handles("Identity", to="Identity")
def identity(op: Operator, emit: Emitter) -> Results:
    """Identity(x)."""
    return op.take(1)


@handles("Cast", to="Cast")
def cast(op: Operator, emit: Emitter) -> Results:
    """Cast(x | dst_type), whose attribute is an aclDataType number."""
    (x,) = op.take(1)
    number = op.integer("dst_type")
    if number not in ACL:
        raise Unsupported(f"dst_type {number} is not an element type that ONNX has")
    return (emit.cast(x, ACL[number]),)


@handles_each(_BINARY)
def binary(op: Operator, emit: Emitter) -> Results:
    """An operator of x1 and x2, which broadcast."""
    return (emit.arithmetic(_BINARY[op.op_type], *op.take(2)),)


@handles_each(_COMPARISONS)
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
    """Select(condition, x1, x2), which may have one condition for each row; SelectV2, which broadcasts."""
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


@handles_each({name: name for name in _UNARY})
def unary(op: Operator, emit: Emitter) -> Results:
    """A function of x."""
    return (emit.in_float32(lambda wide: emit.op(op.op_type, wide), *op.take(1)),)


@handles("Relu", to="Relu, Max")
def relu(op: Operator, emit: Emitter) -> Results:
    """Relu(x). For integers it is Max(x, 0), because ONNX Runtime has few integer kernels of Relu."""
    (x,) = op.take(1)
    if x.dtype not in FLOATS:
        return (emit.op("Max", x, emit.like(0, x)),)
    return (emit.in_float32(lambda wide: emit.op("Relu", wide), x),)


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
