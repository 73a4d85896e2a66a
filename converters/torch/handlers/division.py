"""Signs; and division that rounds, which torch's exporter computes with floats: large integers come out wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.writing.lowering import division
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
        return division.floor_div(emit, left, right)
    return division.truncate_div(emit, left, right) if mode == "trunc" else emit.op("Div", left, right)


def _common(x: Tensor, other: Tensor | float) -> DType:
    """The type that torch computes in; a float number makes floats of integers."""
    if not isinstance(other, Tensor):
        return TensorProto.FLOAT if isinstance(other, float) and x.dtype not in FLOATS else x.dtype
    if (x.dtype in FLOATS) != (other.dtype in FLOATS):
        return x.dtype if x.dtype in FLOATS else other.dtype
    return max(x.dtype, other.dtype, key=lambda dtype: np.dtype(numpy_dtype(dtype)).itemsize)
