"""tf.raw_ops.Fill."""

from __future__ import annotations

from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, handles


@handles("Fill", inputs=("dims", "value"))
def fill(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator under the same names."""
    return emit.domain_op("Fill", node.inputs)
