"""tf.raw_ops.Einsum."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.einsum import einsum
from onnx_sparse.converters.writing.emitter import Emitter


@handles(
    "Einsum",
    inputs=("inputs*",),
    to="MatMul",
    dtypes=("float16", "bfloat16", "float", "double", "int32", "int64"),
)
def einsum_of_equation(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Einsum, as matrix products."""
    return (einsum(node.attributes["equation"].decode(), node.all("inputs"), emit),)
