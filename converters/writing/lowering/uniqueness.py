"""The different elements or slices of a tensor."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import FLOATS, HALF_FLOATS, SIGNED_INTEGERS, UNSIGNED_INTEGERS, dtype_name


def unique(emit: Emitter, x: Tensor, axis: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """The different elements, or slices along an axis, in the order of their first occurrence.

    NaN differs from all, also from itself.

    Returns:
        The elements or slices, which of them each of x is, and how often each occurs; the last two as int64.
    """
    compared = comparable(emit, x)
    if x.rank > 1:
        compared = _as_rows(emit, compared, x.rank, axis)
    y, first, places, counts = different(emit, compared, is_sorted=False, axis=0 if x.rank > 1 else None)
    y = emit.op("Gather", x, first, axis=axis) if x.rank > 1 or x.dtype in FLOATS else emit.cast(y, x.dtype)
    return y, places, counts


def _as_rows(emit: Emitter, x: Tensor, rank: int, axis: int) -> Tensor:
    """Each slice as a row, with an element more: a slice of nothing is one, too, but not to ONNX Runtime."""
    turned = emit.op("Transpose", x, perm=[axis, *(k for k in range(rank) if k != axis)]) if axis else x
    sizes = emit.shape_of(turned)
    inner = emit.op("Slice", sizes, emit.constant([1]), emit.constant([rank]))
    count, width = emit.size(x, axis), emit.op("ReduceProd", inner, emit.constant([0]), keepdims=1)
    rows = emit.op("Reshape", turned, emit.op("Concat", count, width, axis=0), allowzero=1)
    more = emit.op("Concat", count, emit.constant([1]), axis=0)
    equal = emit.op("Expand", emit.constant("" if x.dtype == TensorProto.STRING else 0, x.dtype), more)
    return emit.op("Concat", rows, equal, axis=1)


def different(emit: Emitter, x: Tensor, *, is_sorted: bool, axis: int | None = None) -> tuple[Tensor, ...]:
    """The different elements or slices, where each occurs first, which each is, and how often it occurs."""
    return emit.node("Unique", [x], [x.dtype, *[TensorProto.INT64] * 3], sorted=int(is_sorted), axis=axis)


def comparable(emit: Emitter, x: Tensor) -> Tensor:
    """The elements in a type that ONNX Runtime's Unique compares as TensorFlow does, one to one."""
    if x.dtype in (*SIGNED_INTEGERS, *UNSIGNED_INTEGERS, TensorProto.BOOL):
        return emit.cast(x, TensorProto.INT64)
    if x.dtype not in (*FLOATS, TensorProto.STRING):
        raise Unsupported(f"ONNX Runtime does not compare {dtype_name(x.dtype)}")
    if x.dtype == TensorProto.STRING:
        return x
    # Numbers are numbered. NaN, which has no place in an order, differs from all, also from itself.
    flat = emit.op("Reshape", emit.cast(x, TensorProto.FLOAT) if x.dtype in HALF_FLOATS else x, emit.constant([-1]))
    if x.dtype in HALF_FLOATS:  # whose zeros TensorFlow tells apart by their sign
        zero, no_half = emit.like(0, flat), emit.like(float(np.finfo(np.float32).max), flat)
        is_negative = emit.op("Less", emit.op("Reciprocal", flat), zero)
        flat = emit.op("Where", emit.op("And", emit.op("Equal", flat, zero), is_negative), no_half, flat)
    is_number = emit.op("Equal", flat, flat)
    numbers = emit.op("Where", is_number, flat, emit.like(0, flat))
    _, _, code, _ = different(emit, numbers, is_sorted=False)
    count = emit.op("Squeeze", emit.shape_of(flat), emit.constant([0]))
    others = emit.op("Range", count, emit.op("Add", count, count), emit.constant(1))
    return emit.op("Reshape", emit.op("Where", is_number, code, others), emit.shape_of(x), allowzero=1)
