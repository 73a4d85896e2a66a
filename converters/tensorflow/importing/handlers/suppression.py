"""tf.raw_ops.NonMaxSuppressionV2, V3, V4 and V5: boxes without those that overlap better ones."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.handlers.registry import Node
from onnx_sparse.converters.tensorflow.importing.emitter import Emitter
from onnx_sparse.converters.tensorflow.importing.handlers.registry import handles
from onnx_sparse.converters.writing.tensor import Tensor

_INPUTS = ("boxes", "scores", "max_output_size", "iou_threshold")
_FLOATS = ("float16", "float")


@handles("NonMaxSuppressionV2", inputs=_INPUTS, to="NonMaxSuppression", dtypes=_FLOATS)
@handles("NonMaxSuppressionV3", inputs=(*_INPUTS, "score_threshold"), to="NonMaxSuppression", dtypes=_FLOATS)
def suppress(node: Node, emit: Emitter) -> Tensor:
    """The numbers of the boxes that are kept, the best first."""
    return emit.cast(_kept(node, emit), TensorProto.INT32)


@handles("NonMaxSuppressionV4", inputs=(*_INPUTS, "score_threshold"), to="NonMaxSuppression", dtypes=_FLOATS)
def suppress_padded(node: Node, emit: Emitter) -> tuple[Tensor, Tensor]:
    """The numbers of the boxes that are kept, followed by zeros if asked for, and how many these are."""
    kept = _kept(node, emit)
    return _padded(kept, node, emit), _count(kept, emit)


@handles(
    "NonMaxSuppressionV5",
    inputs=(*_INPUTS, "score_threshold", "soft_nms_sigma"),
    to="NonMaxSuppression",
    dtypes=_FLOATS,
    notes="soft_nms_sigma is 0",
)
def suppress_softly(node: Node, emit: Emitter) -> tuple[Tensor, Tensor, Tensor]:
    """The numbers and scores of the boxes that are kept, and how many these are."""
    if np.any(node["soft_nms_sigma"].constant("soft_nms_sigma")):
        raise Unsupported("ONNX Runtime does not lower the scores of boxes that overlap; soft_nms_sigma is not 0")
    kept = _kept(node, emit)
    scores = emit.op("Gather", node["scores"], kept)
    if node.attributes["pad_to_max_output_size"]:
        missing = _missing(kept, node, emit)
        scores = emit.op("Concat", scores, emit.op("Expand", emit.like(0, scores), missing), axis=0)
    return _padded(kept, node, emit), scores, _count(kept, emit)


def _kept(node: Node, emit: Emitter) -> Tensor:
    """The numbers of the boxes that are kept, as int64."""
    boxes, scores = (emit.cast(node[name], TensorProto.FLOAT) for name in ("boxes", "scores"))
    first = emit.constant([0])
    limits = [emit.op("Reshape", emit.int64(node["max_output_size"]), emit.constant([1]))]
    for name in ("iou_threshold", "score_threshold"):
        if name in node.inputs:
            limit = emit.cast(node[name], TensorProto.FLOAT)
            limits.append(emit.op("Reshape", limit, emit.constant([1])))
    given = [emit.op("Unsqueeze", boxes, first), emit.op("Unsqueeze", scores, emit.constant([0, 1])), *limits]
    found = emit.op("NonMaxSuppression", *given, dtype=TensorProto.INT64, shape=(None, 3))
    return emit.op("Squeeze", emit.op("Slice", found, emit.constant([2]), emit.constant([3]), emit.constant([1])),
                   emit.constant([1]))  # fmt: skip


def _missing(kept: Tensor, node: Node, emit: Emitter) -> Tensor:
    most = emit.op("Reshape", emit.int64(node["max_output_size"]), emit.constant([1]))
    return emit.op("Sub", most, emit.shape_of(kept))


def _padded(kept: Tensor, node: Node, emit: Emitter) -> Tensor:
    numbers = emit.cast(kept, TensorProto.INT32)
    if not node.attributes["pad_to_max_output_size"]:
        return numbers
    zeros = emit.op("Expand", emit.like(0, numbers), _missing(kept, node, emit))
    return emit.op("Concat", numbers, zeros, axis=0)


def _count(kept: Tensor, emit: Emitter) -> Tensor:
    return emit.cast(emit.op("Size", kept, shape=()), TensorProto.INT32)
