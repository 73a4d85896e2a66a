"""GE's operators on indices and ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import top_k
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.ascend.shapes import place
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import scattering as lowering
from onnx_sparse.converters.writing.lowering.einsum import einsum
from onnx_sparse.converters.writing.lowering.gathering import gathered
from onnx_sparse.converters.writing.lowering.one_hot import one_hot
from onnx_sparse.converters.writing.lowering.ranges import linear_space
from onnx_sparse.schemas.declaration import FLOATS


@handles("GatherV2", to="Gather")
def gather_v2(node: Node, emit: AscendEmitter) -> Tensor:
    """GatherV2(x, indices, axis | batch_dims)."""
    x, indices, axis = node.take(3)
    batch = node.integer("batch_dims", 0)
    if node.flag("negative_index_support") and batch:
        raise Unsupported("negative_index_support with batch_dims is not supported")
    return gathered(emit, x, indices, axis.integer("axis"), batch)


@handles("GatherV2D", to="Gather")
def gather_v2d(node: Node, emit: AscendEmitter) -> Tensor:
    """GatherV2D(x, indices | axis)."""
    x, indices = node.take(2)
    return gathered(emit, x, indices, node.integer("axis"), 0)


@handles("Gather", to="Gather")
def gather(node: Node, emit: AscendEmitter) -> Tensor:
    """Gather(x, indices | batch_dims): along the axis behind the batch's."""
    x, indices = node.take(2)
    batch = node.integer("batch_dims", 0)
    return gathered(emit, x, indices, batch, batch)


@handles("GatherNd", to="GatherND")
def gather_nd(node: Node, emit: AscendEmitter) -> Tensor:
    """GatherNd(x, indices): the last axis of the indices is a position in x."""
    x, indices = node.take(2)
    depth = indices.shape[-1] if indices.shape else None
    if indices.shape == () or depth == 0 or (depth is not None and x.shape is not None and depth > x.rank):
        raise Unsupported(f"{indices} holds no positions in {x}")
    return emit.op("GatherND", x, emit.cast(indices, TensorProto.INT64))


_WITH_NAN = "with NaN, the position of the largest or smallest number"
#: The reductions of ScatterElements that ONNX has.
_REDUCTIONS = {"none": "none", "": "none", "add": "add", "mul": "mul"}


@handles("ScatterElements", to="ScatterElements")
def scatter_elements(node: Node, emit: AscendEmitter) -> Tensor:
    """ScatterElements(data, indices, updates | axis, reduction)."""
    data, indices, updates = node.take(3)
    reduction = str(node.attributes.get("reduction", "none"))
    if reduction not in _REDUCTIONS:
        raise Unsupported(f"reduction {reduction} is none of none, add, mul")
    axis = place(data, node.integer("axis", 0))
    return lowering.scatter_elements(emit, data, indices, updates, axis, _REDUCTIONS[reduction])


@handles("ScatterNdUpdate", "TensorScatterUpdate", to="ScatterND")
def scatter_nd_update(node: Node, emit: AscendEmitter) -> Tensor:
    """ScatterNdUpdate(var, indices, updates): the result is var with the updates in it."""
    var, indices, updates = node.take(3)
    return emit.op("ScatterND", var, emit.cast(indices, TensorProto.INT64), updates, shape=var.shape)


@handles("ScatterUpdate", to="Unsqueeze, ScatterND")
def scatter_update(node: Node, emit: AscendEmitter) -> Tensor:
    """ScatterUpdate(var, indices, updates): rows of var are replaced."""
    var, indices, updates = node.take(3)
    return lowering.scatter_rows(emit, var, indices, updates)


@handles("ArgMaxV2", "ArgMaxD", to="ArgMax", differs=_WITH_NAN)
@handles("ArgMin", "ArgMinD", to="ArgMin", differs=_WITH_NAN)
def extreme_position(node: Node, emit: AscendEmitter) -> Tensor:
    """ArgMaxV2(x, dimension | dtype), ArgMin(x, dimension | dtype): the first position."""
    x, *given = node.take(1, 2)
    axis = place(x, given[0].integer("dimension") if given else node.integer("dimension"))
    default = 3 if node.op_type.endswith("D") else 9
    name = "ArgMax" if "Max" in node.op_type else "ArgMin"
    found = emit.op(name, emit.wide(x), axis=axis, keepdims=0)
    return emit.cast(found, ACL.get(node.integer("dtype", default), TensorProto.INT64))


@handles("Sort", to="TopK", differs="NaN is the largest number")
def sort(node: Node, emit: AscendEmitter) -> Results:
    """Sort(x | axis, descending): values and int32 positions; equal values in the order of their positions."""
    (x,) = node.take(1)
    axis = place(x, node.integer("axis", -1))
    size = x.dim(axis)
    count = emit.size(x, axis) if size is None else size
    values, places = top_k(emit, x, count, axis=axis, largest=node.flag("descending"))
    return (values, emit.cast(places, TensorProto.INT32))


@handles("GatherElements", to="GatherElements")
def gather_elements(node: Node, emit: AscendEmitter) -> Tensor:
    """GatherElements(x, index | dim)."""
    x, index = node.take(2)
    return emit.op("GatherElements", x, index, shape=index.shape, axis=place(x, node.integer("dim", 0)))


@handles("Range", to="Range")
def range_(node: Node, emit: AscendEmitter) -> Tensor:
    """Range(start, limit, delta)."""
    bounds = node.take(3)
    dtype = bounds[0].dtype
    shape = node.results[0].shape if node.results else (None,)
    if all(bound.value is not None for bound in bounds):
        shape = (_range_size(*(bound.constant("bound").ravel().tolist() for bound in bounds)),)
    arguments = [emit.cast(emit.wide(emit.reshape(bound, [])), emit.wide(bounds[0]).dtype) for bound in bounds]
    return emit.cast(emit.op("Range", *arguments, shape=shape), dtype)


def _range_size(*bounds: list[Any]) -> int:
    if any(len(bound) != 1 or not math.isfinite(bound[0]) for bound in bounds) or not bounds[2][0]:
        raise Unsupported(f"start, limit and delta are {', '.join(map(str, bounds))}")
    (start,), (limit,), (delta,) = bounds
    return max(0, int(-((start - limit) // delta)))


@handles("Tril", "Triu", to="Trilu")
def triangle(node: Node, emit: AscendEmitter) -> Tensor:
    """Tril(x | diagonal), Triu(x | diagonal)."""
    (x,) = node.take(1)
    if x.shape is not None and x.rank < 2:
        raise Unsupported(f"{x} is not a matrix")
    diagonal = emit.constant(node.integer("diagonal", 0))
    upper = int(node.op_type == "Triu")
    return emit.in_float32(lambda wide: emit.op("Trilu", wide, diagonal, shape=x.shape, upper=upper), x)


@handles("Where", to="NonZero, Transpose")
def where(node: Node, emit: AscendEmitter) -> Tensor:
    """Where(x): the int64 coordinates of the elements that are not zero, one row for each."""
    (x,) = node.take(1)
    found = emit.op("NonZero", emit.wide(x), shape=(None if x.shape is None else x.rank, None))
    return emit.transpose(found, [1, 0])


@handles(
    *("TopKV2", "TopK", "TopKV2D", "TopKD"),
    to="TopK",
    differs="NaN is the largest number; equal values are in the order of their positions",
    ignored=("sorted", "1", "2"),  # numbers from 0 on, from which the NPU makes the positions
)
def top_k_v2(node: Node, emit: AscendEmitter) -> Results:
    """TopKV2(x, k | dim, largest), TopK, TopKV2D(x, k, _), TopKD(x, _ | k): values and int32 positions."""
    x = node.take(1, 3)[0]
    k = emit.constant(node.integer("k")) if node.op_type == "TopKD" else node.take(2, 3)[1]
    count: int | Tensor = k if k.value is None else k.integer("k")
    axis, largest = node.integer("dim", -1), node.flag("largest", True)
    values, positions = top_k(emit, x, count, axis=axis, largest=largest)
    return (values, emit.cast(positions, TensorProto.INT32))


@handles("ArgMaxWithValue", to="ReduceMax, Equal, ArgMax", differs="with NaN, its position")
@handles("ArgMinWithValue", to="ReduceMin, Equal, ArgMax", differs="with NaN, its position")
def extreme_with_value(node: Node, emit: AscendEmitter) -> Results:
    """ArgMaxWithValue(x | dimension, keep_dims): the first int32 position of the largest, and its value."""
    (x,) = node.take(1)
    axis, keep = place(x, node.integer("dimension")), node.flag("keep_dims")
    kind = node.op_type[3:6]
    wide = emit.wide(x)
    value = emit.reduce(f"Reduce{kind}", wide, [axis], keepdims=True)
    is_value = emit.op("Equal", wide, value)
    if x.dtype in FLOATS:  # that of NaN, if there is one
        is_value = emit.op("Or", is_value, emit.op("IsNaN", wide))
    found = emit.op("ArgMax", emit.cast(is_value, TensorProto.INT32), axis=axis, keepdims=int(keep))
    value = value if keep else emit.op("Squeeze", value, emit.constant([axis]))
    return (emit.cast(found, TensorProto.INT32), emit.cast(value, x.dtype))


@handles("SearchSorted", to="Less, ReduceSum", notes="without a sorter")
def search_sorted(node: Node, emit: AscendEmitter) -> Tensor:
    """SearchSorted(row, values | dtype, right): how many of a row are below a value, or not above; NaN is last."""
    row, values = node.take(2)
    if row.dtype != values.dtype:
        raise Unsupported(f"{row} and {values} are of different element types")
    limits, numbers = emit.op("Unsqueeze", emit.wide(row), emit.constant([-2])), emit.wide(values)
    if row.rank == 1:
        limits = emit.wide(row)
    numbers = emit.op("Unsqueeze", numbers, emit.constant([-1]))
    is_right = node.flag("right")
    counted = emit.op("Not", emit.op("Less" if is_right else "LessOrEqual", numbers, limits))
    if row.dtype in FLOATS:  # a NaN in the row is counted for a NaN only, and by right only
        is_number = emit.op("Equal", limits, limits)
        allowed = emit.op("Or", is_number, emit.op("IsNaN", numbers)) if is_right else is_number
        counted = emit.op("And", counted, allowed)
    found = emit.reduce("ReduceSum", emit.cast(counted, TensorProto.INT64), [-1], keepdims=False)
    return emit.cast(found, ACL.get(node.integer("dtype", 9), TensorProto.INT64))


@handles("LinSpace", to="Range, Mul, Add, Where")
def lin_space(node: Node, emit: AscendEmitter) -> Tensor:
    """LinSpace(start, stop, num): so many numbers at equal distances; the last is exact."""
    start, stop, count = map(emit.scalar, node.take(3))
    return emit.in_float32(lambda a, b: linear_space(emit, a, b, count), start, emit.cast(stop, start.dtype))


@handles("Eye", to="", notes="up to 2^25 elements in a graph")
def eye(node: Node, emit: AscendEmitter) -> Tensor:
    """Eye( | num_rows, num_columns, batch_shape, dtype): matrices with ones on the diagonal."""
    node.take(0)
    rows, batch = node.integer("num_rows"), node.integers("batch_shape")
    columns = node.integer("num_columns", 0) or rows
    if min(rows, columns, *batch) < 0:
        raise Unsupported(f"{rows} rows, {columns} columns, batch_shape {batch}")
    emit.spend(math.prod([*batch, rows, columns]))
    dtype = ACL.get(node.integer("dtype", 0))
    if dtype is None:
        raise Unsupported(f"dtype {node.integer('dtype', 0)} is not an element type that ONNX has")
    return emit.constant(np.broadcast_to(np.eye(rows, columns), (*batch, rows, columns)), dtype)


@handles("Einsum", to="MatMul, Transpose, Reshape, ReduceSum", ignored=("N",))
def einsum_(node: Node, emit: AscendEmitter) -> Tensor:
    """Einsum(x... | equation)."""
    operands = node.take(1, max(len(node.inputs), 1))
    return emit.in_float32(lambda *wide: einsum(str(node.attributes.get("equation", "")), wide, emit), *operands)


@handles("OneHot", to="Equal, Where")
def onehot(node: Node, emit: AscendEmitter) -> Tensor:
    """OneHot(x, depth, on_value, off_value | axis)."""
    x, size, on, off = node.take(4)
    return one_hot(emit, x, size, emit.scalar(on), emit.scalar(off), node.integer("axis", -1))
