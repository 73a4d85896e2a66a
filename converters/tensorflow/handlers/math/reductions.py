"""tf.raw_ops.Sum, Mean, Max, Min, Prod, EuclideanNorm, All, Any, also of nothing: its mean is NaN; and L2Loss."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import FLOATS, HALF_FLOATS, dtype_name, numpy_dtype

_FLOAT_NAMES = tuple(map(dtype_name, FLOATS))


@handles("Sum", to="ReduceSum", dtypes=("all numbers",), differs="int32 is not wrapped where it overflows")
def reduce(node: Node, emit: Emitter) -> Tensor:
    """The reduction of the same name."""
    return _reduced(f"Reduce{node.op_type}", node["input"], node, emit)


@handles("Max", "Min", to="ReduceMax", dtypes=("all numbers",))
def reduce_to_extreme(node: Node, emit: Emitter) -> Tensor:
    """The same, also of types that ONNX Runtime computes in others: that of nothing is the least or largest number."""
    op_type, data = f"Reduce{node.op_type}", node["input"]
    if data.dtype == TensorProto.INT16:
        reduced = _reduced(op_type, emit.cast(data, TensorProto.INT32), node, emit)
        limit = emit.like(np.iinfo(np.int16).min if node.op_type == "Max" else np.iinfo(np.int16).max, reduced)
        return emit.cast(emit.op(node.op_type, reduced, limit), data.dtype)
    return _reduced(op_type, data, node, emit)


@handles("EuclideanNorm", to="ReduceL2", dtypes=("all numbers",))
def reduce_norm(node: Node, emit: Emitter) -> Tensor:
    """The root of the sum of squares; that of integers is cut off. ONNX Runtime has no ReduceL2 of double."""
    x = node["input"]
    if x.dtype not in FLOATS:
        total = _reduced("ReduceSum", emit.op("Mul", x, x), node, emit)  # wraps as in TensorFlow
        zero = emit.like(0, total)
        root = emit.op("Sqrt", emit.cast(emit.op("Max", total, zero), TensorProto.DOUBLE))
        made = emit.cast(emit.op("Floor", root), x.dtype)
        if x.dtype not in (TensorProto.INT32, TensorProto.INT64):
            return made
        least = emit.like(np.iinfo(numpy_dtype(x.dtype)).min, total)  # NaN as such an integer, on x86
        return emit.op("Where", emit.op("Less", total, zero), least, made)
    if x.dtype == TensorProto.DOUBLE:
        return emit.op("Sqrt", _reduced("ReduceSum", emit.op("Mul", x, x), node, emit))
    return _reduced("ReduceL2", x, node, emit)


@handles("All", "Any", to="ReduceMin", dtypes=("bool",))
def reduce_logical(node: Node, emit: Emitter) -> Tensor:
    """The least or the sum of zeros and ones; of nothing, all are true and none is."""
    op_type = "ReduceMin" if node.op_type == "All" else "ReduceSum"
    reduced = _reduced(op_type, emit.cast(node["input"], TensorProto.INT32), node, emit)
    return emit.cast(reduced, TensorProto.BOOL)


@handles("Mean", to="ReduceMean", dtypes=("all numbers",))
def reduce_mean(node: Node, emit: Emitter) -> Tensor:
    """ReduceMean, or where there may be nothing to reduce, a sum by a number: ONNX Runtime's mean of nothing is 0."""
    data, axes = node["input"], _constant_axes(node)
    something = data.shape is not None and axes is not None and all(data.shape[axis] for axis in axes)
    if data.dtype in (TensorProto.INT64, TensorProto.UINT64, TensorProto.UINT32):
        # ONNX Runtime's mean of them is one of doubles.
        wide = emit.cast(data, TensorProto.INT64)
        sizes = emit.op("Gather", emit.shape_of(data), _axes(node, emit))
        count = emit.op("Max", emit.op("ReduceProd", sizes, emit.constant([0]), keepdims=0), emit.constant(1))
        divided = TensorProto.UINT64 if data.dtype == TensorProto.UINT64 else TensorProto.INT64
        total = emit.cast(_reduced("ReduceSum", wide, node, emit), divided)
        return emit.cast(emit.op("Div", total, emit.cast(count, divided)), data.dtype)
    if something or data.dtype not in FLOATS:
        return _reduced("ReduceMean", data, node, emit)
    wide = emit.cast(data, TensorProto.FLOAT) if data.dtype in HALF_FLOATS else data
    sizes = emit.op("Gather", emit.shape_of(data), _axes(node, emit))
    count = emit.cast(emit.op("ReduceProd", sizes, emit.constant([0]), keepdims=0), wide.dtype)
    return emit.cast(emit.op("Div", _reduced("ReduceSum", wide, node, emit), count), data.dtype)


def _reduced(op_type: str, data: Tensor, node: Node, emit: Emitter) -> Tensor:
    keep = int(node.attributes.get("keep_dims", 0))
    return emit.op(op_type, data, _axes(node, emit), keepdims=keep, noop_with_empty_axes=1)


def _constant_axes(node: Node) -> list[int] | None:
    """The axes, if they are constants; from the front, if the rank is known."""
    given, x = node["reduction_indices"].value, node["input"]
    if given is None:
        return None
    return [int(axis) if x.shape is None else x.axis(int(axis)) for axis in np.ravel(given)]


def _axes(node: Node, emit: Emitter) -> Tensor:
    axes = _constant_axes(node)
    if axes is not None:
        return emit.constant(axes)
    given = emit.cast(node["reduction_indices"], TensorProto.INT64)
    if given.shape is None or len(given.shape) != 1:
        given = emit.op("Reshape", given, emit.constant([-1]))
    if node["input"].shape is None:
        return given
    return emit.op("Mod", given, emit.constant([max(node["input"].rank, 1)]))  # from the front


@handles("L2Loss", to="ReduceSum", dtypes=_FLOAT_NAMES)
def l2_loss(node: Node, emit: Emitter) -> Tensor:
    """Half the sum of the squares."""
    t = emit.op("Reshape", node["t"], emit.constant([-1]))
    total = emit.op("ReduceSum", emit.op("Mul", t, t), emit.constant([0]), keepdims=0)
    return emit.op("Mul", total, emit.like(0.5, t))
