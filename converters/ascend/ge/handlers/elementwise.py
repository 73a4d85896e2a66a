"""GE's elementwise operators, casts, selections and activations; half floats are computed in float32."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import gelu as gelu_of
from onnx_sparse.converters.ascend.compositions import select
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.ascend.ge.handlers.fill import constant_of
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles, handles_each
from onnx_sparse.converters.errors import Unsupported
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
def identity(node: Node, emit: Emitter) -> Results:
    """Identity(x)."""
    return node.take(1)


@handles("Cast", to="Cast")
def cast(node: Node, emit: Emitter) -> Results:
    """Cast(x | dst_type), whose attribute is an aclDataType number."""
    (x,) = node.take(1)
    number = node.integer("dst_type")
    if number not in ACL:
        raise Unsupported(f"dst_type {number} is not an element type that ONNX has")
    return (emit.cast(x, ACL[number]),)


@handles_each(_BINARY)
def binary(node: Node, emit: Emitter) -> Results:
    """An operator of x1 and x2, which broadcast."""
    return (emit.arithmetic(_BINARY[node.op_type], *node.take(2)),)


@handles_each(_COMPARISONS)
def comparison(node: Node, emit: Emitter) -> Results:
    """A comparison of x1 and x2, a bool."""
    return (emit.arithmetic(_COMPARISONS[node.op_type], *node.take(2)),)


@handles("NotEqual", to="Equal, Not")
def not_equal(node: Node, emit: Emitter) -> Results:
    """NotEqual(x1, x2)."""
    return (emit.op("Not", emit.arithmetic("Equal", *node.take(2))),)


@handles("LogicalNot", to="Not")
def logical_not(node: Node, emit: Emitter) -> Results:
    """LogicalNot(x)."""
    return (emit.op("Not", *node.take(1)),)


@handles("LogicalAnd", to="And")
@handles("LogicalOr", to="Or")
def logical(node: Node, emit: Emitter) -> Results:
    """LogicalAnd(x1, x2), LogicalOr(x1, x2)."""
    return (emit.op(node.op_type.removeprefix("Logical"), *node.take(2)),)


@handles("Select", "SelectV2", to="Where")
def choose(node: Node, emit: Emitter) -> Results:
    """Select(condition, x1, x2), which may have one condition for each row; SelectV2, which broadcasts."""
    condition, x, y = node.take(3)
    if node.op_type == "Select" and condition.rank == 1 and x.rank > 1:
        condition = emit.reshape(condition, [condition.dims[0], *[1] * (x.rank - 1)])
    return (select(emit, emit.cast(condition, TensorProto.BOOL), x, y),)


@handles("Muls", to="Mul")
@handles("Adds", to="Add")
def with_number(node: Node, emit: Emitter) -> Results:
    """Muls(x | value), Adds(x | value)."""
    (x,) = node.take(1)
    name = {"Muls": "Mul", "Adds": "Add"}[node.op_type]
    if x.dtype not in FLOATS:
        return (emit.op(name, x, constant_of(emit, node.number("value"), x.dtype)),)
    return (emit.in_float32(lambda wide: emit.op(name, wide, constant_of(emit, node.number("value"), wide.dtype)), x),)


@handles_each({name: name for name in _UNARY})
def unary(node: Node, emit: Emitter) -> Results:
    """A function of x."""
    return (emit.in_float32(lambda wide: emit.op(node.op_type, wide), *node.take(1)),)


@handles("Relu", to="Relu, Max")
def relu(node: Node, emit: Emitter) -> Results:
    """Relu(x). For integers it is Max(x, 0), because ONNX Runtime has few integer kernels of Relu."""
    (x,) = node.take(1)
    if x.dtype not in FLOATS:
        return (emit.extreme("Max", x, emit.like(0, x), x.shape),)
    return (emit.in_float32(lambda wide: emit.op("Relu", wide), x),)


@handles("Rsqrt", to="Sqrt, Reciprocal")
def rsqrt(node: Node, emit: Emitter) -> Results:
    """Rsqrt(x)."""
    return (emit.in_float32(lambda wide: emit.op("Reciprocal", emit.op("Sqrt", wide)), *node.take(1)),)


@handles("Gelu", to="Tanh, Mul, Add", notes="the approximation with tanh, as GE defines it")
def gelu(node: Node, emit: Emitter) -> Results:
    """Gelu(x)."""
    return (emit.in_float32(lambda wide: gelu_of(emit, wide, exact=False), *node.take(1)),)


@handles("ClipByValue", to="Max, Min")
def clip_by_value(node: Node, emit: Emitter) -> Results:
    """ClipByValue(x, clip_value_min, clip_value_max)."""
    x, low, high = node.take(3)
    return (emit.arithmetic("Min", emit.arithmetic("Max", x, low), high),)
