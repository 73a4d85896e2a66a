"""tf.raw_ops.Bincount, DenseBincount, SparseBincount, Bucketize, LowerBound, UpperBound."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.coordinates import column, element, sparse_rank
from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, Unsupported, handles
from onnx_sparse.schemas.declaration import numpy_dtype

_COUNTED = ("int32", "int64", "float", "double")
_NOTES = "negative values are not counted; TensorFlow raises"


@handles("Bincount", inputs=("arr", "size", "weights"), to="UnsortedSegmentSum", dtypes=_COUNTED, notes=_NOTES)
def bincount(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """How often each value below `size` occurs, or the sum of its weights."""
    return (_count(node, node["arr"], None, None, emit),)


@handles("DenseBincount", inputs=("input", "size", "weights"), to="UnsortedSegmentSum", dtypes=_COUNTED, notes=_NOTES)
def dense_bincount(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """Bincount of a vector, or of each row of a matrix."""
    values = node["input"]
    if values.known_rank("input") < 2:
        return (_count(node, values, None, None, emit),)
    shape = emit.ints("Shape", values)
    rows = element(shape, 0, emit)
    numbers = emit.ints("Range", emit.integer(0), rows, emit.integer(1))
    row_of_each = emit.ints("Unsqueeze", numbers, emit.integers(1))
    return (_count(node, values, row_of_each, rows, emit),)


@handles(
    "SparseBincount",
    inputs=("indices", "values", "dense_shape", "size", "weights"),
    to="UnsortedSegmentSum",
    dtypes=_COUNTED,
    notes=_NOTES,
)
def sparse_bincount(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """Bincount of the entries of a sparse vector, or of each row of a sparse matrix."""
    indices, shape = node["indices"], node["dense_shape"]
    if sparse_rank(indices, shape) < 2:
        return (_count(node, node["values"], None, None, emit),)
    return (_count(node, node["values"], column(indices, 0, emit), element(shape, 0, emit), emit),)


def _count(node: SourceNode, values: Tensor, row: Tensor | None, rows: Tensor | None, emit: Emitter) -> Tensor:
    """Count values by row and value; without rows, all values are in one row."""
    weights = node["weights"]
    size, ids = emit.cast(node["size"], TensorProto.INT64), emit.cast(values, TensorProto.INT64)
    if weights.shape is None:
        raise Unsupported("whether there are weights is not known")
    one = emit.constant(np.array(1, numpy_dtype(weights.dtype)))
    binary = bool(node.attributes.get("binary_output"))
    if binary or 0 in weights.shape:
        weights = emit.like("Expand", one, emit.ints("Shape", values))
    # A value that is not counted belongs to segment -1, which is dropped.
    low = emit.standard("GreaterOrEqual", ids, emit.integer(0), dtype=TensorProto.BOOL)
    counted = emit.standard(
        "And", low, emit.standard("Less", ids, size, dtype=TensorProto.BOOL), dtype=TensorProto.BOOL
    )
    total = size
    if row is not None and rows is not None:
        ids = emit.ints("Add", ids, emit.ints("Mul", row, size))
        total = emit.ints("Mul", rows, size)
    ids = emit.ints("Where", counted, ids, emit.integer(-1))
    inputs = {"data": weights, "segment_ids": ids, "num_segments": total}
    (counts,) = emit.domain_op("UnsortedSegmentSum", inputs)
    if binary:
        counts = emit.like("Min", counts, one)
    if rows is None:
        return counts
    shape = [emit.ints("Unsqueeze", number, emit.integers(0)) for number in (rows, size)]
    return emit.like("Reshape", counts, emit.ints("Concat", *shape, axis=0), allowzero=1)


@handles("Bucketize", inputs=("input",), to="Less", dtypes=_COUNTED)
def bucketize(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """How many boundaries are less than or equal to each number; NaN is above all, as in TensorFlow's search."""
    boundaries = np.array(node.attributes.get("boundaries", ()), np.float32)
    if not boundaries.size:
        return (emit.like("Expand", emit.constant(np.array(0, np.int32)), emit.ints("Shape", node["input"])),)
    # TensorFlow's boundaries are float32, and it compares integers with them as float32.
    dtype = TensorProto.DOUBLE if node["input"].dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    limits = emit.constant(boundaries.astype(numpy_dtype(dtype)))
    numbers = emit.like("Unsqueeze", emit.cast(node["input"], dtype), emit.integers(-1))
    below = emit.standard("Less", numbers, limits, dtype=TensorProto.BOOL)
    reached = emit.cast(emit.like("Not", below), TensorProto.INT32)
    return (emit.like("ReduceSum", reached, emit.integers(-1), keepdims=0),)


@handles("LowerBound", "UpperBound", inputs=("sorted_inputs", "values"), to="Less", dtypes=_COUNTED)
def bound(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """How many numbers in a sorted row are below each value of that row, or at most that value."""
    limits = emit.like("Unsqueeze", node["sorted_inputs"], emit.integers(1))
    numbers = emit.like("Unsqueeze", node["values"], emit.integers(2))
    if node.op_type == "LowerBound":
        reached = emit.standard("Less", limits, numbers, dtype=TensorProto.BOOL)
    else:
        reached = emit.standard("LessOrEqual", limits, numbers, dtype=TensorProto.BOOL)
    dtype = int(node.attributes.get("out_type", TensorProto.INT32))
    return (emit.like("ReduceSum", emit.cast(reached, dtype), emit.integers(2), keepdims=0),)
