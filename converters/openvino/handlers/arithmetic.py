"""Arithmetic, comparison, logic and bits, element by element with numpy's broadcasting."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering import arithmetic, division, rounding
from onnx_sparse.converters.writing.lowering.shifts import shift_left, shift_right
from onnx_sparse.converters.writing.lowering.special_functions import inverse_error
from onnx_sparse.converters.writing.lowering.trigonometry import trigonometric
from onnx_sparse.converters.writing.registry import lowered
from onnx_sparse.schemas.declaration import SIGNED_INTEGERS, UNSIGNED_INTEGERS

_INTEGERS = SIGNED_INTEGERS + UNSIGNED_INTEGERS


#: Operators of two tensors that ONNX has.
_BINARY = {
    "Add-1": "Add", "Subtract-1": "Sub", "Multiply-1": "Mul", "Maximum-1": "Max", "Minimum-1": "Min", "Power-1": "Pow",
    "Equal-1": "Equal", "Less-1": "Less", "LessEqual-1": "LessOrEqual", "Greater-1": "Greater",
    "GreaterEqual-1": "GreaterOrEqual",
}  # fmt: skip
_BITWISE = {f"Bitwise{name}-13": f"Bitwise{name}" for name in ("And", "Or", "Xor")}
_LOGICAL = {f"Logical{name}-1": name for name in ("And", "Or", "Xor")}


@handles(*_BINARY, to=_BINARY)
def binary(node: Node, emit: Emitter) -> Tensor:
    """The operator that ONNX has, element by element."""
    return emit.op(_BINARY[node.op_type], *node.take(2))


@handles(*_BITWISE, to=_BITWISE)
def bitwise(node: Node, emit: Emitter) -> Tensor:
    """And, or, xor of bits; of bools, the logical operator."""
    a, b = node.take(2)
    target = _BITWISE[node.op_type]
    return emit.op(target.removeprefix("Bitwise") if a.dtype == TensorProto.BOOL else target, a, b)


@handles(*_LOGICAL, to=_LOGICAL)
def logical(node: Node, emit: Emitter) -> Tensor:
    """And, or, xor of truth."""
    return emit.op(_LOGICAL[node.op_type], *(emit.cast(t, TensorProto.BOOL) for t in node.take(2)))


@handles("LogicalNot-1", to="Not")
def logical_not(node: Node, emit: Emitter) -> Tensor:
    """LogicalNot-1."""
    return emit.op("Not", emit.cast(node[0], TensorProto.BOOL))


@handles("BitwiseNot-13", to="BitwiseNot")
def bitwise_not(node: Node, emit: Emitter) -> Tensor:
    """BitwiseNot-13."""
    return emit.op("Not" if node[0].dtype == TensorProto.BOOL else "BitwiseNot", node[0])


@handles("NotEqual-1", to="Equal, Not")
def not_equal(node: Node, emit: Emitter) -> Tensor:
    """NotEqual-1."""
    a, b = node.take(2)
    return emit.op("Not", emit.op("Equal", a, b))


handles("BitwiseLeftShift-15", to="BitShift")(lowered(shift_left))
handles("BitwiseRightShift-15", to="BitShift")(lowered(shift_right))
handles("FloorMod-1", to="Mod")(lowered(division.floor_mod))
handles("Mod-1", to="Mod")(lowered(division.truncate_mod))  # which has the dividend's sign
handles("SquaredDifference-1", to="Sub, Mul")(lowered(arithmetic.squared_difference))
handles("Sign-1", to="Sign")(lowered(rounding.sign))
handles("IsFinite-10", to="IsInf, IsNaN")(lowered(arithmetic.is_finite))
handles("ErfInv-17", to="Log, Mul, Add", notes="Of float, float16 and bfloat16; to the digits of float.")(
    lowered(inverse_error)
)


@handles("Divide-1", to="Div")
def divide(node: Node, emit: Emitter) -> Tensor:
    """Divide-1. Integers are divided as in Python, rounding down, unless `m_pythondiv` is false."""
    a, b = node.take(2)
    return quotient(emit, a, b) if node.flag("m_pythondiv", True) else emit.op("Div", a, b)


def quotient(emit: Emitter, a: Tensor, b: Tensor) -> Tensor:
    """A quotient; that of integers is rounded down."""
    return division.floor_div(emit, a, b) if a.dtype in _INTEGERS else emit.op("Div", a, b)


#: Operators of one tensor that ONNX has, activations among them.
_UNARY = {
    "Abs-1": "Abs", "Negative-1": "Neg", "Exp-1": "Exp", "Log-1": "Log", "Erf-1": "Erf",
    **{f"{name}-1": name for name in ("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Sigmoid")},
    **{f"{name}-4": name for name in ("Asinh", "Acosh", "Atanh")},
    "IsNaN-10": "IsNaN", "ReLU-1": "Relu",
}  # fmt: skip


@handles(*_UNARY, to=_UNARY)
def unary(node: Node, emit: Emitter) -> Tensor:
    """The operator that ONNX has, element by element."""
    return trigonometric(emit, _UNARY[node.op_type], node[0])


@handles("Sqrt-1", to="Sqrt")
def sqrt(node: Node, emit: Emitter) -> Tensor:
    """Sqrt-1. Of integers, it is the nearest one."""
    x = node[0]
    if x.dtype not in _INTEGERS:
        return emit.op("Sqrt", x)
    return emit.cast(emit.op("Round", emit.op("Sqrt", emit.cast(x, TensorProto.DOUBLE))), x.dtype)


@handles("IsInf-10", to="IsInf")
def is_inf(node: Node, emit: Emitter) -> Tensor:
    """IsInf-10."""
    return emit.op(
        "IsInf",
        node[0],
        detect_negative=int(node.flag("detect_negative", True)),
        detect_positive=int(node.flag("detect_positive", True)),
    )


@handles("Floor-1", to="Floor")
def floor(node: Node, emit: Emitter) -> Tensor:
    """Floor-1. Integers stay as they are."""
    return node[0] if node[0].dtype in _INTEGERS else emit.op("Floor", node[0])


@handles("Ceiling-1", to="Ceil")
def ceiling(node: Node, emit: Emitter) -> Tensor:
    """Ceiling-1. Integers stay as they are."""
    return node[0] if node[0].dtype in _INTEGERS else emit.op("Ceil", node[0])


@handles("Round-5", to="Round")
def round_(node: Node, emit: Emitter) -> Tensor:
    """Round-5."""
    x, mode = node[0], node.choice("mode", ("half_to_even", "half_away_from_zero"), "half_to_even")
    if mode == "half_away_from_zero":
        return rounding.half_away(emit, x)
    return x if x.dtype in _INTEGERS else emit.op("Round", x)
