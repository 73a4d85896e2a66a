"""Signs; and division that rounds, which torch's exporter computes with floats: large integers come out wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.writing.lowering import division
from onnx_sparse.converters.writing.lowering.rounding import truncated
from onnx_sparse.schemas.declaration import FLOATS, DType, numpy_dtype

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.div.Tensor_mode", to="Div")
def divide(node: Node, emit: TorchEmitter) -> Tensor:
    """A quotient, rounded down or toward zero, or not at all."""
    mode = node.text("rounding_mode")
    return _rounded(node.tensor("self"), node.number("other"), mode, emit)


@handles("aten.floor_divide.default", to="Div")
def floor_divide(node: Node, emit: TorchEmitter) -> Tensor:
    """A quotient, rounded down."""
    return _rounded(node.tensor("self"), node.number("other"), "floor", emit)


@handles("aten.remainder.Tensor", to="Mod")
@handles("aten.remainder.Scalar", to="Mod")
@handles("aten.remainder.Scalar_Tensor", to="Mod")
def remainder(node: Node, emit: TorchEmitter) -> Tensor:
    """What division that rounds down leaves; exact, which x - floor(x / y) * y is not.

    torch's vectorized loop answers NaN where the quotient is not finite; for the last few elements it is exact, too.
    """
    x, other = node.number("self"), node.number("other")
    dtype = _common(x, other) if isinstance(x, Tensor) else _common(node.tensor("other"), x)
    left, right = (emit.cast(t, dtype) if isinstance(t, Tensor) else emit.constant(t, dtype) for t in (x, other))
    return emit.cast(division.floor_mod(emit, emit.wide(left), emit.wide(right)), dtype)


@handles("aten.trunc.default", to="Floor, Ceil")
def truncate(node: Node, emit: TorchEmitter) -> Tensor:
    """The next whole number toward zero."""
    return truncated(emit, node.tensor("self"))


@handles("aten.sign.default", to="Sign")
def sign(node: Node, emit: TorchEmitter) -> Tensor:
    """-1, 0 or 1; of NaN it is 0."""
    x = node.tensor("self")
    made = emit.op("Sign", x, shape=x.shape)
    return emit.op("Where", emit.op("Equal", x, x), made, emit.like(0, x), shape=x.shape) if x.dtype in FLOATS else made


def _rounded(x: Tensor, other: Tensor | float, mode: str, emit: TorchEmitter) -> Tensor:
    dtype = _common(x, other)
    if mode not in ("floor", "trunc") and dtype not in FLOATS:
        dtype = TensorProto.FLOAT
    left = emit.cast(x, dtype)
    right = emit.cast(other, dtype) if isinstance(other, Tensor) else emit.constant(other, dtype)
    if mode == "floor":
        return _floor(left, right, emit) if dtype in FLOATS else division.floor_div(emit, left, right)
    return division.truncate_div(emit, left, right) if mode == "trunc" else emit.op("Div", left, right)


def _floor(x: Tensor, y: Tensor, emit: TorchEmitter) -> Tensor:
    """The quotient of floats rounded down, as Python's: of what the remainder leaves, so that 1 // 0.1 is 9."""
    wide, divisor = emit.wide(x), emit.wide(y)
    zero = emit.like(0, wide)
    rest = emit.op("Mod", wide, divisor, fmod=1)
    differ = emit.op("Xor", emit.op("Less", rest, zero), emit.op("Less", divisor, zero))
    is_moved = emit.op("And", differ, emit.op("Not", emit.op("Equal", rest, zero)))
    whole = emit.op("Div", emit.op("Sub", wide, rest), divisor)
    whole = emit.op("Sub", whole, emit.cast(is_moved, wide.dtype))
    floor = emit.op("Floor", whole)
    is_above = emit.op("Greater", emit.op("Sub", whole, floor), emit.like(0.5, wide))
    floor = emit.op("Add", floor, emit.cast(is_above, wide.dtype))
    by_zero = emit.op("Equal", divisor, zero)
    return emit.cast(emit.op("Where", by_zero, emit.op("Div", wide, divisor), floor), x.dtype)


def _common(x: Tensor, other: Tensor | float) -> DType:
    """The type that torch computes in; a float number makes floats of integers."""
    if not isinstance(other, Tensor):
        return TensorProto.FLOAT if isinstance(other, float) and x.dtype not in FLOATS else x.dtype
    if (x.dtype in FLOATS) != (other.dtype in FLOATS):
        return x.dtype if x.dtype in FLOATS else other.dtype
    return max(x.dtype, other.dtype, key=lambda dtype: np.dtype(numpy_dtype(dtype)).itemsize)
