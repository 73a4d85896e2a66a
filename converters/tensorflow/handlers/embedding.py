"""tf.raw_ops.SparseSegmentSum, SparseSegmentMean, SparseSegmentSqrtN, and their forms with num_segments."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import number_of_segments

_INPUTS = ("data", "indices", "segment_ids")
_IGNORED = ("sparse_gradient",)
_SIZED_NOTES = "entries of segments >= num_segments are dropped; TensorFlow raises"


def _reduce_by_segment(op_type: str, node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    names = [name for name in ("indices", "segment_ids", "num_segments") if name in node.inputs]
    # TensorFlow has one type per index input, the domain one for all. int64 holds every int32. If both ids are int32
    # they stay so, whatever the type of num_segments: casting a scalar is free, casting all the ids is not.
    ids = {node["indices"].dtype, node["segment_ids"].dtype}
    dtype = TensorProto.INT32 if ids == {TensorProto.INT32} else TensorProto.INT64
    index = {name: emit.cast(node[name], dtype) for name in names}
    index.setdefault("num_segments", number_of_segments(index["segment_ids"], emit))
    return emit.domain_op(op_type, {"emb_table": node["data"], **index})


@handles("SparseSegmentSum", inputs=_INPUTS, to="EmbeddingSegmentsSum", ignored=_IGNORED)
@handles(
    "SparseSegmentSumWithNumSegments",
    inputs=(*_INPUTS, "num_segments"),
    to="EmbeddingSegmentsSum",
    differs=_SIZED_NOTES,
    ignored=_IGNORED,
)
def sparse_segment_sum(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Unweighted, empty segments are 0."""
    return _reduce_by_segment("EmbeddingSegmentsSum", node, emit)


@handles("SparseSegmentMean", inputs=_INPUTS, to="EmbeddingSegmentsMean", ignored=_IGNORED)
@handles(
    "SparseSegmentMeanWithNumSegments",
    inputs=(*_INPUTS, "num_segments"),
    to="EmbeddingSegmentsMean",
    differs=_SIZED_NOTES,
    ignored=_IGNORED,
)
def sparse_segment_mean(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Unweighted, empty segments are 0."""
    return _reduce_by_segment("EmbeddingSegmentsMean", node, emit)


@handles("SparseSegmentSqrtN", inputs=_INPUTS, to="EmbeddingSegmentsSqrtN", ignored=_IGNORED)
@handles(
    "SparseSegmentSqrtNWithNumSegments",
    inputs=(*_INPUTS, "num_segments"),
    to="EmbeddingSegmentsSqrtN",
    differs=_SIZED_NOTES,
    ignored=_IGNORED,
)
def sparse_segment_sqrt_n(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Unweighted, empty segments are 0."""
    return _reduce_by_segment("EmbeddingSegmentsSqrtN", node, emit)
