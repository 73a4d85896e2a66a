"""Division that rounds, which torch's exporter computes with floats: integers beyond 24 bits come out wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
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


def _rounded(x: Tensor, other: Tensor | float, mode: str, emit: TorchEmitter) -> Tensor:
    dtype = _common(x, other)
    if mode not in ("floor", "trunc") and dtype not in FLOATS:
        dtype = TensorProto.FLOAT
    left = emit.cast(x, dtype)
    right = emit.cast(other, dtype) if isinstance(other, Tensor) else emit.constant(other, dtype)
    quotient = emit.op("Div", left, right)
    if dtype in FLOATS:
        if mode == "floor":
            return emit.op("Floor", quotient)
        if mode == "trunc":
            is_below = emit.op("Less", quotient, emit.like(0, quotient))
            return emit.op("Where", is_below, emit.op("Ceil", quotient), emit.op("Floor", quotient))
        return quotient
    if mode == "trunc" or numpy_dtype(dtype).kind == "u":
        return quotient
    rest = emit.op("Sub", left, emit.op("Mul", quotient, right))
    zero = emit.like(0, rest)
    is_other_sign = emit.op("Xor", emit.op("Less", rest, zero), emit.op("Less", right, zero))
    is_above = emit.op("And", emit.op("Not", emit.op("Equal", rest, zero)), is_other_sign)
    return emit.op("Sub", quotient, emit.cast(is_above, dtype))


def _common(x: Tensor, other: Tensor | float) -> DType:
    """The type that torch computes in; a float number makes floats of integers."""
    if not isinstance(other, Tensor):
        return TensorProto.FLOAT if isinstance(other, float) and x.dtype not in FLOATS else x.dtype
    if (x.dtype in FLOATS) != (other.dtype in FLOATS):
        return x.dtype if x.dtype in FLOATS else other.dtype
    return max(x.dtype, other.dtype, key=lambda dtype: np.dtype(numpy_dtype(dtype)).itemsize)
