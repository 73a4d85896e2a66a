"""tf.raw_ops.DenseCountSparseOutput, SparseCountSparseOutput, RaggedCountSparseOutput: tf.sparse.bincount."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.counting import weights_or_ones
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.coordinates import element
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import Rows, rows_of_dense, rows_of_ragged, rows_of_sparse

_COUNTED = ("int32", "int64", "float", "double")
_TYPED = "the element types are the counts' types"
_DIFFERS = "negative values are not counted; TensorFlow raises"


@handles(
    "DenseCountSparseOutput",
    inputs=("values", "weights"),
    to="UnsortedSegmentSum",
    dtypes=_COUNTED,
    notes=_TYPED,
    differs=_DIFFERS,
)
def dense_count(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The distinct values of a vector, or of each row of a matrix, with their counts."""
    return _counts(node, rows_of_dense(node["values"], emit), emit)


@handles(
    "SparseCountSparseOutput",
    inputs=("indices", "values", "dense_shape", "weights"),
    to="UnsortedSegmentSum",
    dtypes=_COUNTED,
    notes=_TYPED,
    differs=_DIFFERS,
)
def sparse_count(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The distinct values of a sparse vector, or of each row of a sparse tensor, with their counts."""
    return _counts(node, rows_of_sparse(node["indices"], node["values"], node["dense_shape"], emit), emit)


@handles(
    "RaggedCountSparseOutput",
    inputs=("splits", "values", "weights"),
    to="UnsortedSegmentSum",
    dtypes=_COUNTED,
    notes=_TYPED,
    differs=_DIFFERS,
)
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
