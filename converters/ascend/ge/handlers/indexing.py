"""GE's operators on indices and ranges."""

from __future__ import annotations

import math
from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import batched_gather, one_hot, select, top_k
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.errors import Unsupported


@handles("GatherV2", to="Gather")
def gather_v2(node: Node, emit: Emitter) -> Results:
    """GatherV2(x, indices, axis | batch_dims)."""
    x, indices, axis = node.take(3)
    return (batched_gather(emit, x, indices, x.axis(axis.integer("axis")), node.integer("batch_dims", 0)),)


@handles("GatherElements", to="GatherElements")
def gather_elements(node: Node, emit: Emitter) -> Results:
    """GatherElements(x, index | dim)."""
    x, index = node.take(2)
    return (emit.op("GatherElements", x, index, shape=index.shape, axis=x.axis(node.integer("dim", 0))),)


@handles("Range", to="Range")
def range_(node: Node, emit: Emitter) -> Results:
    """Range(start, limit, delta)."""
    bounds = node.take(3)
    dtype = bounds[0].dtype
    shape = node.results[0].shape if node.results else (None,)
    if all(bound.value is not None for bound in bounds):
        shape = (_range_size(*(bound.constant("bound").ravel().tolist() for bound in bounds)),)
    arguments = [emit.cast(emit.wide(emit.reshape(bound, [])), emit.wide(bounds[0]).dtype) for bound in bounds]
    return (emit.cast(emit.op("Range", *arguments, shape=shape), dtype),)


def _range_size(*bounds: list[Any]) -> int:
    if any(len(bound) != 1 or not math.isfinite(bound[0]) for bound in bounds) or not bounds[2][0]:
        raise Unsupported(f"start, limit and delta are {', '.join(map(str, bounds))}")
    (start,), (limit,), (delta,) = bounds
    return max(0, int(-((start - limit) // delta)))


@handles("Tril", "Triu", to="Trilu")
def triangle(node: Node, emit: Emitter) -> Results:
    """Tril(x | diagonal), Triu(x | diagonal)."""
    (x,) = node.take(1)
    if x.rank < 2:
        raise Unsupported(f"{x} is not a matrix")
    diagonal = emit.constant(node.integer("diagonal", 0))
    upper = int(node.op_type == "Triu")
    return (emit.in_float32(lambda wide: emit.op("Trilu", wide, diagonal, shape=x.shape, upper=upper), x),)


@handles("Where", to="NonZero, Transpose")
def where(node: Node, emit: Emitter) -> Results:
    """Where(x): the int64 coordinates of the elements that are not zero, one row for each."""
    (x,) = node.take(1)
    found = emit.op("NonZero", emit.wide(x), shape=(x.rank, None))
    return (emit.transpose(found, [1, 0]),)


@handles("TopKV2", to="TopK", notes="equal values in the order of their positions")
def top_k_v2(node: Node, emit: Emitter) -> Results:
    """TopKV2(x, k | dim, largest): values and int32 positions."""
    x, k = node.take(2)
    count, axis, largest = k.integer("k"), node.integer("dim", -1), node.flag("largest", True)
    values, positions = top_k(emit, x, count, axis=axis, largest=largest)
    return (values, emit.cast(positions, TensorProto.INT32))


@handles("OneHot", to="OneHot, Where")
def onehot(node: Node, emit: Emitter) -> Results:
    """OneHot(x, depth, on_value, off_value | axis)."""
    x, size, on, off = node.take(4)
    depth, axis = size.integer("depth"), node.integer("axis", -1)
    if on.dtype in (TensorProto.INT32, TensorProto.INT64, TensorProto.INT8, TensorProto.UINT8):
        return (one_hot(emit, x, on, off, depth, axis),)
    # The values are selected, not cast, because they may not be whole numbers.
    chosen = one_hot(emit, x, emit.constant(1), emit.constant(0), depth, axis)
    return (select(emit, emit.cast(chosen, TensorProto.BOOL), emit.scalar(on), emit.scalar(off)),)
