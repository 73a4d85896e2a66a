"""tf.raw_ops.Bincount of dense, sparse and ragged tensors, tf.sparse.bincount, Bucketize, LowerBound, histograms."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.coordinates import element
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.searching import count_below
from onnx_sparse.converters.writing.lowering.segment_reductions import reduced_by_segment
from onnx_sparse.converters.writing.partitions import Rows, rows_of_dense, rows_of_ragged, rows_of_sparse

_COUNTED = ("int32", "int64", "float", "double")
_NOTES = "negative values are not counted; TensorFlow raises"
_TYPED = "the element types are the counts' types"
_DIFFERS = "negative values are not counted; TensorFlow raises"


@handles("Bincount", to="UnsortedSegmentSum", dtypes=_COUNTED, differs=_NOTES)
def bincount(node: Node, emit: Emitter) -> Tensor:
    """How often each value below `size` occurs, or the sum of its weights."""
    return _count(node, Rows(node["arr"]), emit)


@handles("DenseBincount", to="UnsortedSegmentSum", dtypes=_COUNTED, differs=_NOTES)
def dense_bincount(node: Node, emit: Emitter) -> Tensor:
    """Bincount of a vector, or of each row of a matrix."""
    return _count(node, rows_of_dense(node["input"], emit), emit)


@handles("SparseBincount", to="UnsortedSegmentSum", dtypes=_COUNTED, differs=_NOTES)
def sparse_bincount(node: Node, emit: Emitter) -> Tensor:
    """Bincount of the entries of a sparse vector, or of each row of a sparse matrix."""
    rows = rows_of_sparse(node["indices"], node["values"], node["dense_shape"], emit)
    return _count(node, rows, emit)


@handles("RaggedBincount", to="UnsortedSegmentSum", dtypes=_COUNTED, differs=_NOTES)
def ragged_bincount(node: Node, emit: Emitter) -> Tensor:
    """Bincount of each row."""
    return _count(node, rows_of_ragged(node["splits"], node["values"], emit), emit)


def _count(node: Node, rows: Rows, emit: Emitter) -> Tensor:
    """Count values by row and value; without rows, all values are in one row."""
    values = rows.values
    size, ids = emit.cast(node["size"], TensorProto.INT64), emit.cast(values, TensorProto.INT64)
    one = emit.like(1, node["weights"])
    binary = bool(node.attributes.get("binary_output"))
    weights = (
        emit.op("Expand", one, emit.shape_of(values)) if binary else weights_or_ones(node["weights"], values, emit)
    )
    # A value that is not counted belongs to segment -1, which is dropped.
    low = emit.op("GreaterOrEqual", ids, emit.constant(0))
    counted = emit.op("And", low, emit.op("Less", ids, size))
    total = size
    if rows.row is not None and rows.count is not None:
        ids = emit.op("Add", ids, emit.op("Mul", rows.row, size))
        total = emit.op("Mul", rows.count, size)
    ids = emit.op("Where", counted, ids, emit.constant(-1))
    inputs = {"data": weights, "segment_ids": ids, "num_segments": total}
    (counts,) = emit.domain_op("UnsortedSegmentSum", inputs)
    if binary:
        counts = emit.op("Min", counts, one)
    if rows.count is None:
        return counts
    shape = [emit.op("Unsqueeze", number, emit.constant([0])) for number in (rows.count, size)]
    return emit.op("Reshape", counts, emit.op("Concat", *shape, axis=0), allowzero=1)


def weights_or_ones(weights: Tensor, values: Tensor, emit: Emitter) -> Tensor:
    """One weight for each value: those given, or if there is none, ones."""
    if weights.shape is None:
        raise Unsupported("whether there are weights is not known")
    if 0 in weights.shape:
        return emit.op("Expand", emit.like(1, weights), emit.shape_of(values))
    if None not in weights.shape:
        return weights
    weights = emit.op("Reshape", weights, emit.constant([-1]))
    flat = emit.op("Reshape", values, emit.constant([-1]))
    count = emit.op("Squeeze", emit.shape_of(flat), emit.constant([0]))
    numbers = emit.op("Range", emit.constant(0), count, emit.constant(1))
    with_one = emit.op("Concat", weights, emit.constant([1], weights.dtype), axis=0)
    taken = emit.op("Gather", with_one, emit.op("Min", numbers, emit.shape_of(weights)))
    return emit.op("Reshape", taken, emit.shape_of(values), allowzero=1)


@handles("Bucketize", to="Less", dtypes=_COUNTED)
def bucketize(node: Node, emit: Emitter) -> Tensor:
    """How many boundaries are less than or equal to each number; NaN is above all, as in TensorFlow's search."""
    boundaries = np.array(node.attributes.get("boundaries", ()), np.float32)
    if not boundaries.size:
        return emit.op("Expand", emit.constant(0, TensorProto.INT32), emit.shape_of(node["input"]))
    # TensorFlow's boundaries are float32, and it compares integers with them as float32.
    dtype = TensorProto.DOUBLE if node["input"].dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    limits, numbers = emit.constant(boundaries, dtype), emit.cast(node["input"], dtype)
    return count_below(emit, limits, numbers, or_equal=True, dtype=TensorProto.INT32)


@handles("BoostedTreesBucketize", to="Less", dtypes=("float",), ignored=("num_features",))
def bucketize_features(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """For each feature, how many boundaries are less than each number; what is above all belongs to the last bucket."""
    found = []
    for x, limits in zip(node.all("float_values"), node.all("bucket_boundaries"), strict=True):
        last = emit.op("Sub", emit.shape_of(limits), emit.constant([1]))
        found.append(emit.op("Min", count_below(emit, limits, x, or_equal=False), last))
    return tuple(emit.cast(each, TensorProto.INT32) for each in found)


@handles(
    "HistogramFixedWidth", to="UnsortedSegmentSum", dtypes=_COUNTED,
    differs="NaN is in no bin; TensorFlow raises an error, or counts it where it does not see it",
)  # fmt: skip
def histogram(node: Node, emit: Emitter) -> Tensor:
    """How many numbers are in each of some bins of one width; those beyond the range are in the first and the last."""
    flat = emit.op("Reshape", node["values"], emit.constant([-1]))
    low, high = (emit.scalar(emit.op("Gather", node["value_range"], emit.constant([k]))) for k in range(2))
    count = emit.int64(node["nbins"])
    width = emit.op("Div", *(emit.cast(each, TensorProto.DOUBLE) for each in (emit.op("Sub", high, low), count)))
    inside = emit.extreme("Min", emit.extreme("Max", flat, low), high)  # whose distance no type leaves
    beyond = emit.op("Sub", inside, low)
    place = emit.op("Div", emit.cast(beyond, TensorProto.DOUBLE), width)
    last = emit.op("Sub", count, emit.constant(1))
    place = emit.op("Min", place, emit.cast(last, TensorProto.DOUBLE))
    ones = emit.op("Expand", emit.constant(1, node.dtypes[0]), emit.shape_of(flat))
    return reduced_by_segment(emit, "Sum", ones, emit.int64(place), count)


@handles("LowerBound", "UpperBound", to="Less", dtypes=_COUNTED)
def bound(node: Node, emit: Emitter) -> Tensor:
    """How many numbers in a sorted row are below each value of that row, or not above it; none is above NaN."""
    limits = emit.op("Unsqueeze", node["sorted_inputs"], emit.constant([1]))
    dtype = int(node.attributes.get("out_type", TensorProto.INT32))
    return count_below(emit, limits, node["values"], or_equal=node.op_type == "UpperBound", dtype=dtype)


@handles("DenseCountSparseOutput", to="UnsortedSegmentSum", dtypes=_COUNTED, notes=_TYPED, differs=_DIFFERS)
def dense_count(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The distinct values of a vector, or of each row of a matrix, with their counts."""
    return _counts(node, rows_of_dense(node["values"], emit), emit)


@handles("SparseCountSparseOutput", to="UnsortedSegmentSum", dtypes=_COUNTED, notes=_TYPED, differs=_DIFFERS)
def sparse_count(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The distinct values of a sparse vector, or of each row of a sparse tensor, with their counts."""
    return _counts(node, rows_of_sparse(node["indices"], node["values"], node["dense_shape"], emit), emit)


@handles("RaggedCountSparseOutput", to="UnsortedSegmentSum", dtypes=_COUNTED, notes=_TYPED, differs=_DIFFERS)
def ragged_count(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The distinct values of each row with their counts."""
    return _counts(node, rows_of_ragged(node["splits"], node["values"], emit), emit)


def _counts(node: Node, rows: Rows, emit: Emitter) -> tuple[Tensor, Tensor, Tensor]:
    """A sparse tensor with the counts, by row and value; without rows, all values are in one row."""
    values, attributes = rows.values, node.attributes
    weights = weights_or_ones(node["weights"], values, emit)
    flat = emit.constant([-1])
    weights, numbers = emit.op("Reshape", weights, flat), emit.cast(emit.op("Reshape", values, flat), TensorProto.INT64)
    shortest, longest = (int(attributes.get(name, -1)) for name in ("minlength", "maxlength"))
    counted = emit.op("GreaterOrEqual", numbers, emit.constant(0))
    if longest >= 0:
        counted = emit.op("And", counted, emit.op("Less", numbers, emit.constant(longest)))
        width = emit.constant([longest])
    else:
        least = emit.constant([max(0, shortest - 1)])
        largest = emit.op("ReduceMax", emit.op("Concat", least, numbers, axis=0), emit.constant([0]), keepdims=1)
        width = emit.op("Add", largest, emit.constant([1]))
    numbers, weights = (emit.op("Compress", each, counted, axis=0) for each in (numbers, weights))
    # Values are numbered first: their product with the number of a row might not fit into 64 bits.
    distinct, _, code, _ = _unique(numbers, emit)
    codes = emit.op("Max", emit.shape_of(distinct), emit.constant([1]))
    if rows.row is not None:
        row = emit.op("Expand", rows.row, emit.shape_of(values))
        code = emit.op("Add", code, emit.op("Mul", _kept(row, counted, emit), codes))
    places, _, which, _ = _unique(code, emit)
    many = element(emit.shape_of(places), 0, emit)
    (sums,) = emit.domain_op("UnsortedSegmentSum", {"data": weights, "segment_ids": which, "num_segments": many})
    if attributes["binary_output"]:
        sums = emit.op("Expand", emit.like(1, sums), emit.shape_of(sums))
    indices = emit.op("Unsqueeze", emit.op("Gather", distinct, emit.op("Mod", places, codes)), emit.constant([1]))
    if rows.count is None:
        return indices, sums, width
    group = emit.op("Unsqueeze", emit.op("Div", places, codes), emit.constant([1]))
    shape = emit.op("Concat", emit.op("Unsqueeze", rows.count, emit.constant([0])), width, axis=0)
    return emit.op("Concat", group, indices, axis=1), sums, shape


def _kept(row: Tensor, counted: Tensor, emit: Emitter) -> Tensor:
    return emit.op("Compress", emit.op("Reshape", row, emit.constant([-1])), counted, axis=0)


def _unique(numbers: Tensor, emit: Emitter) -> tuple[Tensor, ...]:
    return emit.node("Unique", [numbers], [TensorProto.INT64] * 4, sorted=1)
