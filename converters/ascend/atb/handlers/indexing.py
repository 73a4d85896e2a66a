"""ATB operations on indices: Gather, Onehot, Nonzero, IndexAdd."""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Operation, Results, handles, refuse
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.ascend.tensors import Tensor, Unsupported

_INDEX_TYPES = {"UNDEFINED": 0, "INDEX_ADD": 1, "INDEX_ADD_VALID": 2}


@handles("Gather", to="Gather")
def gather(op: Operation, emit: Emitter) -> Results:
    """GatherOperation: x's slices along `axis` by indices, the first `batchDims` axes of both in step."""
    x, indices = op.take(2)
    axis, batch = x.axis(op.params.integer("axis", 0)), op.params.integer("batchDims", 0)
    if indices.dtype == TensorProto.UINT32:
        indices = emit.cast(indices, TensorProto.INT64)
    return (batched_gather(emit, x, indices, axis, batch),)


def batched_gather(emit: Emitter, x: Tensor, indices: Tensor, axis: int, batch: int) -> Tensor:
    """Gather along an axis whose first `batch` axes are in step with those of the indices."""
    dims = x.shape or ()
    if batch == 0:
        shape = None if indices.shape is None else (*dims[:axis], *indices.shape, *dims[axis + 1 :])
        return emit.op("Gather", x, indices, shape=shape, axis=axis)
    if not 0 < batch <= min(axis, indices.rank) or x.dims[:batch] != indices.dims[:batch]:
        raise Unsupported(f"batchDims {batch} does not fit {x}, {indices} and axis {axis}")
    # One axis of batch x size: each batch's indices are shifted to where its rows begin.
    front = [*range(batch), axis]
    rest = [i for i in range(x.rank) if i not in front]
    rows = emit.transpose(x, front + rest)
    batches, size = math.prod(x.dims[:batch]), x.dims[axis]
    inner = indices.dims[batch:]
    kept = [x.dims[i] for i in rest]
    flat = emit.reshape(rows, [batches * size, *kept])
    begins = emit.constant([[b * size] for b in range(batches)])
    wide = emit.reshape(emit.cast(indices, TensorProto.INT64), [batches, math.prod(inner)])
    if_negative = emit.op("Less", wide, emit.constant(0), dtype=TensorProto.BOOL)
    wrapped = emit.op("Where", if_negative, emit.op("Add", wide, emit.constant(size)), wide, dtype=TensorProto.INT64)
    picked = emit.op("Gather", flat, emit.op("Add", wrapped, begins), shape=(batches, math.prod(inner), *kept), axis=0)
    whole = emit.reshape(picked, [*x.dims[:batch], *inner, *kept])
    # The axes that stood between the batch and `axis` go back to before the indices.
    between = axis - batch
    first = batch + len(inner)
    perm = [
        *range(batch),
        *range(first, first + between),
        *range(batch, first),
        *range(first + between, len(whole.dims)),
    ]
    return emit.transpose(whole, perm)


@handles("Onehot", to="OneHot")
def onehot(op: Operation, emit: Emitter) -> Results:
    """OnehotOperation: `one` at the index along a new axis of size `depth`, `zero` elsewhere."""
    x, one, zero = op.take(3)
    depth = op.params.integer("depth", 0)
    if depth <= 0:
        refuse("ERROR_INVALID_PARAM", f"depth is {depth}")
    return (one_hot(emit, x, one, zero, depth, op.params.integer("axis", 0)),)


def one_hot(emit: Emitter, x: Tensor, one: Tensor, zero: Tensor, depth: int, axis: int) -> Tensor:
    """ONNX OneHot in int64, the one combination of types that every version of ONNX Runtime has for integers."""
    rank = x.rank + 1
    if not -rank <= axis < rank:
        raise Unsupported(f"axis {axis} is out of range for a result of rank {rank}")
    axis %= rank
    values = [emit.reshape(emit.cast(v, TensorProto.INT64), [1]) for v in (zero, one)]
    dims = x.shape or ()
    made = emit.op(
        "OneHot",
        emit.cast(x, TensorProto.INT64),
        emit.constant(depth),
        emit.concat(values, 0),
        shape=(*dims[:axis], depth, *dims[axis:]),
        axis=axis,
    )
    return emit.cast(made, one.dtype)


@handles("Nonzero", to="NonZero, Pad")
def nonzero(op: Operation, emit: Emitter) -> Results:
    """NonzeroOperation: the coordinates [rank, elements], zeros behind the last; and how many there are."""
    (x,) = op.take(1)
    total = math.prod(x.dims)
    found = emit.op("NonZero", x, dtype=TensorProto.INT64, shape=(x.rank, None))
    count = emit.op(
        "Slice",
        emit.op("Shape", found, dtype=TensorProto.INT64, shape=(2,)),
        emit.constant([1]),
        emit.constant([2]),
        shape=(1,),
    )
    behind = emit.op("Sub", emit.constant([total]), count)
    pads = emit.concat([emit.constant([0, 0, 0]), behind], 0)
    return (emit.op("Pad", found, pads, shape=(x.rank, total)), count)


@handles("IndexAdd", to="Mul, ScatterND", writes=0, notes="INDEX_ADD_VALID is not converted")
def index_add(op: Operation, emit: Emitter) -> Results:
    """IndexAddOperation: var[indices] += alpha * updates along `axis`, in place."""
    var, indices, updates, alpha = op.take(4)
    if op.params.enum("indexType", _INDEX_TYPES, 0) != 1:
        raise Unsupported("only indexType INDEX_ADD has a definition that is known")
    axis = var.axis(op.params.integer("axis", 0))
    perm = [axis, *(i for i in range(var.rank) if i != axis)]
    back = [perm.index(i) for i in range(var.rank)]
    rows = emit.transpose(emit.wide(var), perm)
    factor = emit.reshape(emit.cast(alpha, rows.dtype), [])
    added = emit.op("Mul", emit.transpose(emit.cast(updates, rows.dtype), perm), factor)
    where = emit.reshape(emit.cast(indices, TensorProto.INT64), [math.prod(indices.dims), 1])
    summed = emit.op("ScatterND", rows, where, added, shape=rows.shape, reduction="add")
    return (emit.cast(emit.transpose(summed, back), var.dtype),)
