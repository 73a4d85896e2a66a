"""tf.raw_ops.ScatterNd, TensorScatterUpdate, Add, Sub, Max and Min, GatherNd, with each policy for bad indices."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.segment_reductions import scattered
from onnx_sparse.schemas.declaration import HALF_FLOATS, NUMBERS

_NUMBERS = ("all numbers",)
_HALF_FLOATS = "half floats are summed as float32"
_END = np.iinfo(np.int64).max


@handles("ScatterNd", to="UnsortedSegmentSum", dtypes=(*_NUMBERS, "bool"), differs=_HALF_FLOATS)
def scatter_nd(node: Node, emit: Emitter) -> Tensor:
    """Zeros to which the updates are added at their positions."""
    updates = node["updates"]
    if updates.dtype not in (*NUMBERS, TensorProto.BOOL):
        raise Unsupported("only numbers and booleans can be added up")
    dtype = _summed_in(updates)
    shape = emit.cast(node["shape"], TensorProto.INT64)
    indices, rows = _kept(shape, emit.cast(updates, dtype), node, emit)
    indices = _without_negative(indices, emit)
    return emit.cast(scattered(emit, "add", shape, indices, rows), updates.dtype)


@handles("TensorScatterUpdate", to="ScatterND", dtypes=("every type",))
def tensor_scatter_update(node: Node, emit: Emitter) -> Tensor:
    """The tensor with the updates in their places; of several for one place any, as TensorFlow says."""
    indices, updates = _kept(emit.shape_of(node["tensor"]), node["updates"], node, emit)
    indices = _without_negative(indices, emit)
    return emit.op("ScatterND", node["tensor"], indices, updates)


@handles("TensorScatterAdd", "TensorScatterSub", to="UnsortedSegmentSum", dtypes=_NUMBERS, differs=_HALF_FLOATS)
@handles("TensorScatterMax", to="UnsortedSegmentMax", dtypes=_NUMBERS)
@handles("TensorScatterMin", to="UnsortedSegmentMin", dtypes=_NUMBERS)
def tensor_scatter(node: Node, emit: Emitter) -> Tensor:
    """The tensor combined with the updates at their positions."""
    tensor = node["tensor"]
    if tensor.dtype not in NUMBERS:
        raise Unsupported("only numbers can be added up or compared")
    dtype, kind = _summed_in(tensor), node.op_type.removeprefix("TensorScatter").lower()
    updates = emit.cast(node["updates"], dtype)
    if kind == "sub":
        kind, updates = "add", emit.op("Sub", emit.constant(0, dtype), updates)
    shape = emit.shape_of(tensor)
    indices, updates = _kept(shape, updates, node, emit)
    indices = _without_negative(indices, emit)
    return emit.cast(scattered(emit, kind, shape, indices, updates, emit.cast(tensor, dtype)), tensor.dtype)


@handles("GatherNd", to="GatherND", dtypes=("every type",))
def gather_nd(node: Node, emit: Emitter) -> Tensor:
    """The slices at the positions; zeros at those that are out of range, if these are ignored."""
    params, indices = node["params"], emit.cast(node["indices"], TensorProto.INT64)
    if not _ignores_bad_indices(node):
        return emit.op("GatherND", params, _without_negative(indices, emit))
    depth = _depth(indices)
    shape = emit.shape_of(params)
    sizes, rest = _parted(shape, depth, emit)
    # All slices and one of zeros, so that there is something to take if there are no slices.
    total = emit.op("ReduceProd", sizes, emit.constant([0]), keepdims=1)
    flat = emit.op("Reshape", params, emit.op("Concat", total, rest, axis=0), allowzero=1)
    zero = emit.constant("" if params.dtype == TensorProto.STRING else 0, params.dtype)
    zeros = emit.op("Expand", zero, emit.op("Concat", emit.constant([1]), rest, axis=0))
    after = emit.constant(np.triu(np.ones((depth, depth)), 1), TensorProto.BOOL)
    strides = emit.op("ReduceProd", emit.op("Where", after, sizes, emit.constant(1)), emit.constant([1]), keepdims=0)
    places = emit.op("ReduceSum", emit.op("Mul", indices, strides), emit.constant([-1]), keepdims=0)
    places = emit.op("Where", _in_range(indices, sizes, emit), places, total)
    return emit.op("Gather", emit.op("Concat", flat, zeros, axis=0), places, axis=0)


def _kept(shape: Tensor, updates: Tensor, node: Node, emit: Emitter) -> tuple[Tensor, Tensor]:
    """The indices and the updates, without those that are out of range if these are ignored."""
    indices = emit.cast(node["indices"], TensorProto.INT64)
    if not _ignores_bad_indices(node):
        return indices, updates
    depth = _depth(indices)
    sizes, rest = _parted(shape, depth, emit)
    kept = emit.op("Reshape", _in_range(indices, sizes, emit), emit.constant([-1]))
    count = emit.shape_of(kept)
    flat = emit.op("Concat", count, emit.constant([depth]), axis=0)
    indices = emit.op("Compress", emit.op("Reshape", indices, flat, allowzero=1), kept, axis=0, shape=(None, depth))
    flat = emit.op("Concat", count, rest, axis=0)
    return indices, emit.op("Compress", emit.op("Reshape", updates, flat, allowzero=1), kept, axis=0)


def _without_negative(indices: Tensor, emit: Emitter) -> Tensor:
    """The indices with negative ones, which count from the end in ONNX, out of range: these are refused."""
    negative = emit.op("Less", indices, emit.constant(0))
    return emit.op("Where", negative, emit.constant(_END), indices, shape=indices.shape)


def _ignores_bad_indices(node: Node) -> bool:
    """Whether indices that are out of range are passed over; by default they are an error."""
    policy = bytes(node.attributes.get("bad_indices_policy", b"")).decode()
    if policy not in ("", "DEFAULT", "ERROR", "IGNORE"):
        raise Unsupported(f"the attribute bad_indices_policy = {policy!r} is not converted")
    return policy == "IGNORE"


def _depth(indices: Tensor) -> int:
    """How many coordinates there are for a position."""
    depth = None if indices.shape is None else indices.shape[-1]
    if depth is None:
        raise Unsupported("the number of coordinates of a position is not known")
    return depth


def _parted(shape: Tensor, depth: int, emit: Emitter) -> tuple[Tensor, Tensor]:
    """The sizes of the indexed dimensions, and the others."""
    at = emit.constant([depth])
    return emit.op("Slice", shape, emit.constant([0]), at), emit.op("Slice", shape, at, emit.constant([_END]))


def _in_range(indices: Tensor, sizes: Tensor, emit: Emitter) -> Tensor:
    """Whether all coordinates of a position are in range."""
    low = emit.op("GreaterOrEqual", indices, emit.constant(0))
    inside = emit.cast(emit.op("And", low, emit.op("Less", indices, sizes)), TensorProto.INT32)
    return emit.cast(emit.op("ReduceMin", inside, emit.constant([-1]), keepdims=0), TensorProto.BOOL)


def _summed_in(tensor: Tensor) -> int:
    """The type in which updates are added up: any number of True but 0 is True."""
    if tensor.dtype == TensorProto.BOOL:
        return int(TensorProto.INT32)
    return int(TensorProto.FLOAT) if tensor.dtype in HALF_FLOATS else tensor.dtype
