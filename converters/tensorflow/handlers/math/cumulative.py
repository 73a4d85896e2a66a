"""tf.raw_ops.Prod of doubles, Cumprod and CumulativeLogsumexp."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.computed_axes import any_axis
from onnx_sparse.converters.tensorflow.handlers.math.reductions import reduce
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.converters.writing.lowering import cumulative


@handles("Cumprod", to="Scan", dtypes=("all numbers",))
@any_axis("axis", "x")
def cumulative_product(node: Node, emit: InferringEmitter) -> Tensor:
    """For each position, the product of the elements up to it."""
    return cumulative.cumulative_product(emit, node["x"], _axis(node), **_flags(node))


@handles("CumulativeLogsumexp", to="Scan", dtypes=("float16", "bfloat16", "float", "double"),
         differs="NaN propagates; TensorFlow's kernel replaces it by the sum before it")  # fmt: skip
@any_axis("axis", "x")
def cumulative_log_sum_exp(node: Node, emit: InferringEmitter) -> Tensor:
    """For each position, the logarithm of the sum of the exponentials up to it."""
    return cumulative.cumulative_log_sum_exp(emit, node["x"], _axis(node), **_flags(node))


@handles("Prod", to="ReduceProd", dtypes=("all numbers",),
         differs="integers beyond 2^53 are rounded")  # fmt: skip
def product(node: Node, emit: InferringEmitter) -> Tensor:
    """The product along axes; that of doubles is not rounded to float."""
    x = node["input"]
    if x.dtype != TensorProto.DOUBLE:
        return reduce(node, emit)
    axes = sorted({x.axis(axis) for axis in node["reduction_indices"].integers("the axes")})
    made = cumulative.product(emit, x, axes)
    if not axes or node.attributes["keep_dims"]:
        return made
    return emit.op("Squeeze", made, emit.constant(axes))


def _axis(node: Node) -> int:
    return node["x"].axis(node["axis"].integer("axis"))


def _flags(node: Node) -> dict[str, bool]:
    return {name: bool(node.attributes[name]) for name in ("reverse", "exclusive")}
