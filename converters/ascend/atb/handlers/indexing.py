"""ATB operations on indices: Gather, Onehot, Nonzero, IndexAdd."""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, handles, refuse
from onnx_sparse.converters.ascend.attention import numbers
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import scattering as lowering
from onnx_sparse.converters.writing.lowering.gathering import gathered
from onnx_sparse.converters.writing.lowering.one_hot import one_hot
from onnx_sparse.converters.writing.lowering.segment_reductions import scattered

_REDUCTIONS = {"NONE": 0, "ADD": 1}
_INDEX_TYPES = {"UNDEFINED": 0, "INDEX_ADD": 1, "INDEX_ADD_VALID": 2}


@handles("Gather", to="Gather", exact=True)
def gather(node: Node, emit: AscendEmitter) -> Tensor:
    """GatherOperation: slices of x along `axis` by indices; the first `batchDims` axes of both correspond."""
    x, indices = node.take(2)
    axis, batch = x.axis(node.params.integer("axis", 0)), node.params.integer("batchDims", 0)
    if indices.dtype == TensorProto.UINT32:
        indices = emit.cast(indices, TensorProto.INT64)
    return gathered(emit, x, indices, axis, batch)


@handles("Onehot", to="Equal, Where", exact=True)
def onehot(node: Node, emit: AscendEmitter) -> Tensor:
    """OnehotOperation: `one` at the index along a new axis of size `depth`, `zero` elsewhere."""
    x, one, zero = node.take(3)
    depth = node.params.integer("depth", 0)
    if depth <= 0:
        refuse("ERROR_INVALID_PARAM", f"depth is {depth}")
    on, off = (emit.scalar(value) for value in (one, zero))
    return one_hot(emit, x, emit.constant(depth), on, off, node.params.integer("axis", 0))


@handles("Nonzero", to="NonZero, Pad", exact=True)
def nonzero(node: Node, emit: AscendEmitter) -> Results:
    """NonzeroOperation: the coordinates [rank, elements], followed by zeros; and their number."""
    (x,) = node.take(1)
    total = math.prod(x.dims)
    found = emit.op("NonZero", x, shape=(x.rank, None))
    count = emit.op(
        "Slice",
        emit.shape_of(found),
        emit.constant([1]),
        emit.constant([2]),
        shape=(1,),
    )
    behind = emit.op("Sub", emit.constant([total]), count)
    pads = emit.concat([emit.constant([0, 0, 0]), behind], 0)
    return (emit.op("Pad", found, pads, shape=(x.rank, total)), count)


@handles("ScatterElementsV2", to="ScatterElements", writes=(0,))
def scatter_elements(node: Node, emit: AscendEmitter) -> Tensor:
    """ScatterElementsV2Operation: updates are put, or added with reduction ADD, along `axis`, in place."""
    x, indices, updates = node.take(3)
    axis = x.axis(node.params.integer("axis", -1))
    reduction = "add" if node.params.enum("reduction", _REDUCTIONS, 0) else "none"
    return lowering.scatter_elements(emit, x, indices, updates, axis, reduction)


@handles("IndexAdd", to="Mul, UnsortedSegmentSum", writes=(0,))
def index_add(node: Node, emit: AscendEmitter) -> Tensor:
    """IndexAddOperation: var[indices] += alpha * updates along `axis`, in place.

    INDEX_ADD_VALID has the number of valid indices and updates in place of alpha, which is then 1.
    """
    var, indices, updates, last = node.take(4)
    kind = node.params.enum("indexType", _INDEX_TYPES, 0)
    if kind not in (_INDEX_TYPES["INDEX_ADD"], _INDEX_TYPES["INDEX_ADD_VALID"]):
        refuse("ERROR_INVALID_PARAM", f"indexType {kind} is not one of ATB's")
    axis = var.axis(node.params.integer("axis", 0))
    perm = [axis, *(i for i in range(var.rank) if i != axis)]
    back = [perm.index(i) for i in range(var.rank)]
    rows = emit.transpose(emit.wide(var), perm)
    added = emit.transpose(emit.cast(updates, rows.dtype), perm)
    count = math.prod(indices.dims)
    where = emit.reshape(emit.cast(indices, TensorProto.INT64), [count])
    if kind == _INDEX_TYPES["INDEX_ADD"]:
        added = emit.op("Mul", added, emit.reshape(emit.cast(last, rows.dtype), []))
    else:  # what is behind the valid ones is undefined
        valid = emit.op("Less", numbers(emit, count), emit.scalar(emit.cast(last, TensorProto.INT64)))
        where = emit.op("Where", valid, where, emit.constant(0))
        by_row = emit.reshape(valid, [count, *[1] * (added.rank - 1)])
        added = emit.op("Where", by_row, added, emit.like(0, added))
    summed = scattered(emit, "add", emit.shape_of(rows), emit.reshape(where, [count, 1]), added, rows)
    return emit.cast(emit.transpose(summed, back), var.dtype)
