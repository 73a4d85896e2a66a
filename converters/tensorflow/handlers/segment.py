"""tf.raw_ops.SegmentSum, Mean, Max, Min, Prod and UnsortedSegmentSum, Max, Min, Prod."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas import OPS

_SORTED = ("data", "segment_ids")
_UNSORTED = ("data", "segment_ids", "num_segments")
_NAN_NOTES = "NaN propagates; in TensorFlow that depends on its position in the segment"


@handles("SegmentSum", "SegmentMean", "SegmentProd", inputs=_SORTED)
@handles("SegmentMax", "SegmentMin", inputs=_SORTED, differs=_NAN_NOTES)
@handles("UnsortedSegmentSum", "UnsortedSegmentProd", inputs=_UNSORTED)
@handles("UnsortedSegmentMax", "UnsortedSegmentMin", inputs=_UNSORTED, differs=_NAN_NOTES)
def reduce_by_segment(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The operator of the same name; the last id of a sorted one gives its number of segments."""
    ids = node["segment_ids"]
    # TensorFlow's unsorted operators also take int16 ids.
    wide = emit.cast(ids, TensorProto.INT32) if ids.dtype == TensorProto.INT16 else ids
    # With sorted ids, the maximum or minimum of an empty segment is 0.
    attributes = {a.name: "ZERO" for a in OPS[node.op_type].attributes if a.name == "fill_mode"}
    return emit.domain_op(node.op_type, {**node.inputs, "segment_ids": wide}, attributes)
