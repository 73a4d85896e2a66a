"""GE's fills: Fill, FillD, Fills, FillV2, FillV2D, MaskedFill, MaskedFillRange, ZerosLike, OnesLike, Empty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import range_filled
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.ascend.shapes import broadcast
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.schemas.declaration import FLOATS, DType, dtype_name


@handles("Fill", "FillD", to="Fill")
def fill(node: Node, emit: AscendEmitter) -> Tensor:
    """Fill(dims, value), FillD(value | dims)."""
    if node.op_type == "FillD":
        (value,) = node.take(1)
        dims: Tensor | list[int] = node.integers("dims")
    else:
        dims, value = node.take(2)
    return filled(emit, dims, emit.scalar(value))


@handles("FillV2", "FillV2D", to="Fill", notes="the element type is that of the result in the graph")
def fill_v2(node: Node, emit: AscendEmitter) -> Tensor:
    """FillV2(dims | value), FillV2D( | value, dims)."""
    dtype = node.results[0].dtype if node.results else None
    if dtype is None:
        raise Unsupported("the graph does not say the element type of its result")
    if len([tensor for tensor in node.inputs if tensor is not None]) > 1:
        raise Unsupported("FillV2 of two inputs writes in place, which is another operator of the same name")
    dims = node.integers("dims") if node.op_type == "FillV2D" else node.take(1)[0]
    return filled(emit, dims, constant_of(emit, node.number("value", 0.0), dtype))


@handles("Fills", to="Fill")
def fills(node: Node, emit: AscendEmitter) -> Tensor:
    """Fills(x | value): a tensor of x's shape and element type."""
    (x,) = node.take(1)
    return filled_like(emit, x, node.number("value"))


@handles("ZerosLike", "OnesLike", to="Fill")
def constant_like(node: Node, emit: AscendEmitter) -> Tensor:
    """ZerosLike(x), OnesLike(x)."""
    (x,) = node.take(1)
    return filled_like(emit, x, 0.0 if node.op_type == "ZerosLike" else 1.0)


@handles("Empty", to="Fill", notes="uninitialized elements are 0", ignored=("init",))
def empty(node: Node, emit: AscendEmitter) -> Tensor:
    """Empty(shape | dtype)."""
    dtype = ACL.get(node.integer("dtype", 0))
    if dtype is None:
        raise Unsupported(f"dtype {node.integer('dtype', 0)} is not an element type that ONNX has")
    return filled(emit, node.take(1)[0], constant_of(emit, 0.0, dtype))


@handles("MaskedFill", to="MaskedFill, Expand, Where", notes="x is also broadcast to the mask, unlike in ATB")
def masked_fill(node: Node, emit: AscendEmitter) -> Results:
    """MaskedFill(x, mask, value): all three broadcast."""
    x, mask, value = node.take(3)
    mask, value = emit.cast(mask, TensorProto.BOOL), emit.cast(value, x.dtype)
    shape = broadcast(x.shape, mask.shape)
    if value.shape not in ((), (1,)) or shape is None or not _covers(x, mask):
        return (emit.op("Where", mask, value, x),)
    return emit.domain_op("MaskedFill", {"x": x, "mask": mask, "value": emit.scalar(value)})


def _covers(x: Tensor, mask: Tensor) -> bool:
    """Whether a mask is surely not larger than x in any dimension."""
    own, other = (tensor.shape or () for tensor in (x, mask))
    pairs = zip(reversed(own), reversed(other), strict=False)
    return len(other) <= len(own) and all(size == 1 or (size == of and of is not None) for of, size in pairs)


@handles("MaskedFillRange", to="GreaterOrEqual, Less, And, MaskedFill")
def masked_fill_range(node: Node, emit: AscendEmitter) -> Tensor:
    """MaskedFillRange(x, start, end, value | axis)."""
    x, start, end, value = node.take(4)
    return range_filled(emit, x, start, end, value, node.integer("axis", -1))


def filled(emit: AscendEmitter, dims: Tensor | list[int], value: Tensor) -> Tensor:
    """The domain's Fill."""
    shape = emit.constant(dims) if isinstance(dims, list) else dims
    return emit.domain_op("Fill", {"dims": shape, "value": value})[0]


def filled_like(emit: AscendEmitter, x: Tensor, value: float) -> Tensor:
    """A tensor of x's shape and element type."""
    is_known = x.shape is not None and None not in x.shape
    result = filled(emit, list(x.dims) if is_known else emit.shape_of(x), constant_of(emit, value, x.dtype))
    return replace(result, shape=x.shape)


def constant_of(emit: AscendEmitter, value: float, dtype: DType) -> Tensor:
    """A float attribute, which has float32 precision, as a scalar of an element type."""
    number: Any = value
    if dtype not in FLOATS:
        if not np.isfinite(value):
            raise Unsupported(f"value {value} is no {dtype_name(dtype)}")
        number = int(value)
    with np.errstate(over="ignore"):
        return emit.constant(number, dtype)
