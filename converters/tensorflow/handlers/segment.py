"""tf.raw_ops.SegmentSum, Mean, Max, Min, Prod and UnsortedSegmentSum, Max, Min, Prod."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, handles
from onnx_sparse.schemas import OPS

_SORTED = ("data", "segment_ids")
_UNSORTED = ("data", "segment_ids", "num_segments")
_NAN_NOTES = "NaN propagates; in TensorFlow that depends on where in its segment it stands"


def _reduce(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    ids = node["segment_ids"]
    # UnsortedSegment operators take int16 ids, too.
    wide = emit.cast(ids, TensorProto.INT32) if ids.dtype == TensorProto.INT16 else ids
    # TensorFlow's empty segments of a maximum and a minimum are 0 where ids are sorted.
    attributes = {a.name: "ZERO" for a in OPS[node.op_type].attributes if a.name == "fill_mode"}
    return emit.domain_op(node.op_type, {**node.inputs, "segment_ids": wide}, attributes)


for _op_type in ("SegmentSum", "SegmentMean", "SegmentProd"):
    handles(_op_type, inputs=_SORTED, to=_op_type)(_reduce)
for _op_type in ("SegmentMax", "SegmentMin"):
    handles(_op_type, inputs=_SORTED, to=_op_type, notes=_NAN_NOTES)(_reduce)
for _op_type in ("UnsortedSegmentSum", "UnsortedSegmentProd"):
    handles(_op_type, inputs=_UNSORTED, to=_op_type)(_reduce)
for _op_type in ("UnsortedSegmentMax", "UnsortedSegmentMin"):
    handles(_op_type, inputs=_UNSORTED, to=_op_type, notes=_NAN_NOTES)(_reduce)
