"""tf.raw_ops.SegmentSum, Mean, Max, Min, Prod, their unsorted forms, and SparseSegmentSum, Mean, SqrtN."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import number_of_segments
from onnx_sparse.schemas import OPS

_NAN_NOTES = "NaN propagates; in TensorFlow that depends on its position in the segment"
_IGNORED = ("sparse_gradient",)
_SPARSE = {f"SparseSegment{kind}": f"EmbeddingSegments{kind}" for kind in ("Sum", "Mean", "SqrtN")}
_SIZED = {f"{op_type}WithNumSegments": target for op_type, target in _SPARSE.items()}
_SIZED_NOTES = "entries of segments >= num_segments are dropped; TensorFlow raises"


@handles("SegmentSum", "SegmentMean", "SegmentProd")
@handles("SegmentMax", "SegmentMin", differs=_NAN_NOTES)
@handles("UnsortedSegmentSum", "UnsortedSegmentProd")
@handles("UnsortedSegmentMax", "UnsortedSegmentMin", differs=_NAN_NOTES)
def reduce_by_segment(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The operator of the same name; the last id of a sorted one gives its number of segments."""
    ids = node["segment_ids"]
    # TensorFlow's unsorted operators also take int16 ids.
    wide = emit.cast(ids, TensorProto.INT32) if ids.dtype == TensorProto.INT16 else ids
    # With sorted ids, the maximum or minimum of an empty segment is 0.
    attributes = {a.name: "ZERO" for a in OPS[node.op_type].attributes if a.name == "fill_mode"}
    return emit.domain_op(node.op_type, {**node.inputs, "segment_ids": wide}, attributes)


@handles(*_SPARSE, to=_SPARSE, ignored=_IGNORED)
@handles(*_SIZED, to=_SIZED, differs=_SIZED_NOTES, ignored=_IGNORED)
def reduce_rows_by_segment(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Rows that are looked up, unweighted; empty segments are 0."""
    names = [name for name in ("indices", "segment_ids", "num_segments") if name in node.inputs]
    # TensorFlow has one type per index input, the domain one for all. int64 holds every int32. If both ids are int32
    # they stay so, whatever the type of num_segments: casting a scalar is free, casting all the ids is not.
    ids = {node["indices"].dtype, node["segment_ids"].dtype}
    dtype = TensorProto.INT32 if ids == {TensorProto.INT32} else TensorProto.INT64
    index = {name: emit.cast(node[name], dtype) for name in names}
    index.setdefault("num_segments", number_of_segments(index["segment_ids"], emit))
    op_type = {**_SPARSE, **_SIZED}[node.op_type]
    return emit.domain_op(op_type, {"emb_table": node["data"], **index})
