"""GE's fills: Fill, FillD, Fills, FillV2, FillV2D, MaskedFill, MaskedFillRange, ZerosLike, OnesLike, Empty."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import range_filled, scalar
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Operator, Results, handles
from onnx_sparse.converters.ascend.tensors import Shape, Tensor, Unsupported, broadcast
from onnx_sparse.schemas.declaration import FLOATS, DType, dtype_name


@handles("Fill", "FillD", to="Fill")
def fill(op: Operator, emit: Emitter) -> Results:
    """Fill(dims, value), FillD(value | dims)."""
    if op.op_type == "FillD":
        (value,) = op.take(1)
        dims: Tensor | list[int] = op.integers("dims")
    else:
        dims, value = op.take(2)
    return (filled(op, emit, dims, scalar(emit, value)),)


@handles("FillV2", "FillV2D", to="Fill", notes="the element type is that of the result in the graph")
def fill_v2(op: Operator, emit: Emitter) -> Results:
    """FillV2(dims | value), FillV2D( | value, dims)."""
    dtype = op.results[0].dtype if op.results else None
    if dtype is None:
        raise Unsupported("the graph does not say the element type of its result")
    if len([tensor for tensor in op.inputs if tensor is not None]) > 1:
        raise Unsupported("FillV2 of two inputs writes in place, which is another operator of the same name")
    dims = op.integers("dims") if op.op_type == "FillV2D" else op.take(1)[0]
    return (filled(op, emit, dims, constant_of(emit, op.real("value", 0.0), dtype)),)


@handles("Fills", to="Fill")
def fills(op: Operator, emit: Emitter) -> Results:
    """Fills(x | value): a tensor of x's shape and element type."""
    (x,) = op.take(1)
    return (filled_like(op, emit, x, op.real("value")),)


@handles("ZerosLike", "OnesLike", to="Fill")
def constant_like(op: Operator, emit: Emitter) -> Results:
    """ZerosLike(x), OnesLike(x)."""
    (x,) = op.take(1)
    return (filled_like(op, emit, x, 0.0 if op.op_type == "ZerosLike" else 1.0),)


@handles("Empty", to="Fill", notes="uninitialised elements are 0")
def empty(op: Operator, emit: Emitter) -> Results:
    """Empty(shape | dtype)."""
    dtype = ACL.get(op.integer("dtype", 0))
    if dtype is None:
        raise Unsupported(f"dtype {op.integer('dtype', 0)} is not an element type that ONNX has")
    return (filled(op, emit, op.take(1)[0], constant_of(emit, 0.0, dtype)),)


@handles("MaskedFill", to="MaskedFill, Expand, Where", notes="x is also broadcast to the mask, unlike in ATB")
def masked_fill(op: Operator, emit: Emitter) -> Results:
    """MaskedFill(x, mask, value): all three broadcast."""
    x, mask, value = op.take(3)
    mask, value = emit.cast(mask, TensorProto.BOOL), emit.cast(value, x.dtype)
    shape = broadcast(x.shape, mask.shape)
    if value.shape not in ((), (1,)) or shape is None:
        return (emit.op("Where", mask, value, x),)
    if shape != x.shape:
        if None in shape:
            raise Unsupported(f"{x} is broadcast to {mask}, whose shape is not known")
        x = emit.op("Expand", x, emit.constant([d for d in shape if d is not None]), shape=shape)
    return (emit.domain_op("MaskedFill", x, mask, scalar(emit, value), shape=x.shape),)


@handles("MaskedFillRange", to="GreaterOrEqual, Less, And, MaskedFill")
def masked_fill_range(op: Operator, emit: Emitter) -> Results:
    """MaskedFillRange(x, start, end, value | axis)."""
    x, start, end, value = op.take(4)
    return (range_filled(emit, x, start, end, value, op.integer("axis", -1)),)


def filled(op: Operator, emit: Emitter, dims: Tensor | list[int], value: Tensor) -> Tensor:
    """The domain's Fill; its shape is known if the dims are constant or the graph says it."""
    shape: Shape | None = op.results[0].shape if op.results else None
    if isinstance(dims, list):
        shape = tuple(dims)
        dims = emit.constant(dims)
    elif dims.name in op.constants:
        shape = tuple(op.whole_numbers(dims, "dims"))
    if shape is not None and any(dim is not None and dim < 0 for dim in shape):
        raise Unsupported(f"dims {list(shape)} have a negative dimension")
    if dims.dtype not in (TensorProto.INT32, TensorProto.INT64):
        raise Unsupported(f"dims are {dtype_name(dims.dtype)}")
    return emit.domain_op("Fill", dims, value, shape=shape)


def filled_like(op: Operator, emit: Emitter, x: Tensor, value: float) -> Tensor:
    """A tensor of x's shape and element type."""
    known = x.shape is not None and None not in x.shape
    rank = None if x.shape is None else len(x.shape)
    dims = (
        list(x.dims) if known else emit.op("Shape", x, dtype=TensorProto.INT64, shape=None if rank is None else (rank,))
    )
    result = filled(op, emit, dims, constant_of(emit, value, x.dtype))
    return Tensor(result.name, result.dtype, x.shape)


def constant_of(emit: Emitter, value: float, dtype: DType) -> Tensor:
    """A float attribute, which has float32 precision, as a scalar of an element type."""
    number: Any = value
    if dtype not in FLOATS:
        if not np.isfinite(value):
            raise Unsupported(f"value {value} is no {dtype_name(dtype)}")
        number = int(value)
    with np.errstate(over="ignore"):
        return emit.constant(number, dtype)
