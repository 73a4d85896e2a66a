"""tf.raw_ops.Fill."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter


@handles("Fill", inputs=("dims", "value"))
def fill(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator under the same names."""
    return emit.domain_op("Fill", node.inputs)
