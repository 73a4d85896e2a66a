"""tf.raw_ops.Reshape: a 0 in the shape means size 0."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, handles


@handles("Reshape", inputs=("tensor", "shape"), to="Reshape", dtypes=("every type",))
def reshape(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """By default, ONNX takes a 0 for a dimension to be copied; it may be the size of an empty batch."""
    target = node["shape"]
    attributes = {} if target.value is not None and target.value.all() else {"allowzero": 1}
    return (emit.like("Reshape", node["tensor"], emit.cast(target, TensorProto.INT64), **attributes),)
