"""tf.raw_ops.Einsum, which tf2onnx converts with sizes that ONNX Runtime cannot infer for a batch without rows."""

from __future__ import annotations

from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.einsum import einsum
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.tensor import Tensor


@handles(
    "Einsum",
    inputs=("inputs*",),
    to="MatMul",
    dtypes=("float16", "bfloat16", "float", "double", "int32", "int64"),
)
def einsum_of_equation(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Einsum, as matrix products."""
    return (einsum(node.attributes["equation"].decode(), node.all("inputs"), emit),)
