"""tf.raw_ops.MatrixInverse, for small matrices."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.inverse import LIMITS, inverse


@handles(
    "MatrixInverse",
    inputs=("input",),
    to="GatherElements",
    dtypes=("float", "double"),
    notes=LIMITS,
    differs="the inverse of a singular matrix is not finite; TensorFlow raises",
)
def matrix_inverse(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The inverse."""
    made = inverse(node["input"], emit)
    if node.attributes.get("adjoint"):
        last = node["input"].rank - 1
        made = emit.op("Transpose", made, perm=[*range(last - 1), last, last - 1])
    return (made,)
