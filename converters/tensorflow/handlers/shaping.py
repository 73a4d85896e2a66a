"""tf.raw_ops.Reshape: a 0 in the shape means size 0."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles


@handles("Reshape", inputs=("tensor", "shape"), to="Reshape", dtypes=("every type",))
def reshape(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """By default, ONNX takes a 0 for a dimension to be copied; it may be the size of an empty batch."""
    target = node["shape"]
    allowzero = None if target.value is not None and target.value.all() else 1
    return (emit.op("Reshape", node["tensor"], emit.cast(target, TensorProto.INT64), allowzero=allowzero),)
