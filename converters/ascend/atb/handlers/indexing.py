"""ATB operations on indices: Gather, Onehot, Nonzero, IndexAdd."""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, handles, refuse
from onnx_sparse.converters.ascend.compositions import batched_gather, one_hot
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.segment_reductions import scattered

_INDEX_TYPES = {"UNDEFINED": 0, "INDEX_ADD": 1, "INDEX_ADD_VALID": 2}


@handles("Gather", to="Gather")
def gather(node: Node, emit: Emitter) -> Results:
    """GatherOperation: slices of x along `axis` by indices; the first `batchDims` axes of both correspond."""
    x, indices = node.take(2)
    axis, batch = x.axis(node.params.integer("axis", 0)), node.params.integer("batchDims", 0)
    if indices.dtype == TensorProto.UINT32:
        indices = emit.cast(indices, TensorProto.INT64)
    return (batched_gather(emit, x, indices, axis, batch),)


@handles("Onehot", to="OneHot")
def onehot(node: Node, emit: Emitter) -> Results:
    """OnehotOperation: `one` at the index along a new axis of size `depth`, `zero` elsewhere."""
    x, one, zero = node.take(3)
    depth = node.params.integer("depth", 0)
    if depth <= 0:
        refuse("ERROR_INVALID_PARAM", f"depth is {depth}")
    return (one_hot(emit, x, one, zero, depth, node.params.integer("axis", 0)),)


@handles("Nonzero", to="NonZero, Pad")
def nonzero(node: Node, emit: Emitter) -> Results:
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


@handles("IndexAdd", to="Mul, UnsortedSegmentSum", writes=0, notes="INDEX_ADD_VALID is not supported")
def index_add(node: Node, emit: Emitter) -> Results:
    """IndexAddOperation: var[indices] += alpha * updates along `axis`, in place."""
    var, indices, updates, alpha = node.take(4)
    if node.params.enum("indexType", _INDEX_TYPES, 0) != 1:
        raise Unsupported("only indexType INDEX_ADD has a definition that is known")
    axis = var.axis(node.params.integer("axis", 0))
    perm = [axis, *(i for i in range(var.rank) if i != axis)]
    back = [perm.index(i) for i in range(var.rank)]
    rows = emit.transpose(emit.wide(var), perm)
    factor = emit.reshape(emit.cast(alpha, rows.dtype), [])
    added = emit.op("Mul", emit.transpose(emit.cast(updates, rows.dtype), perm), factor)
    where = emit.reshape(emit.cast(indices, TensorProto.INT64), [math.prod(indices.dims), 1])
    summed = scattered(emit, "add", emit.shape_of(rows), where, added, rows)
    return (emit.cast(emit.transpose(summed, back), var.dtype),)
