"""tf.raw_ops.OneHot, ZerosLike, OnesLike: for every type, and OneHot also for indices out of range."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, handles
from onnx_sparse.schemas.declaration import numpy_dtype


@handles("OneHot", inputs=("indices", "depth", "on_value", "off_value"), to="Equal", dtypes=("every type",))
def one_hot(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """On at the index, off elsewhere; off everywhere if the index is negative or too large."""
    indices = emit.cast(node["indices"], TensorProto.INT64)
    axis, count = int(node.attributes.get("axis", -1)), emit.cast(node["depth"], TensorProto.INT64)
    numbers = emit.ints("Range", emit.integer(0), count, emit.integer(1))
    if axis >= 0:
        after = node["indices"].known_rank("indices") - axis
        if after:
            numbers = emit.ints("Unsqueeze", numbers, emit.integers(*range(1, after + 1)))
    spread = emit.ints("Unsqueeze", indices, emit.integers(axis))
    hit = emit.standard("Equal", spread, numbers, dtype=TensorProto.BOOL)
    return (emit.where(hit, node["on_value"], node["off_value"]),)


@handles("ZerosLike", "OnesLike", inputs=("x",), to="Expand", dtypes=("every type",))
def filled_like(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """A constant in the shape of x; for strings, zero is the empty string."""
    x = node["x"]
    number = 0 if node.op_type == "ZerosLike" else 1
    value = np.array("", object) if x.dtype == TensorProto.STRING else np.array(number, numpy_dtype(x.dtype))
    return (emit.like("Expand", emit.constant(value), emit.ints("Shape", x)),)
