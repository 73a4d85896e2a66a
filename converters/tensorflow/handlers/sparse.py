"""tf.raw_ops.SparseFillEmptyRows, RaggedFillEmptyRows, SparseReshape."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter


@handles(
    "SparseFillEmptyRows",
    inputs=("indices", "values", "dense_shape", "default_value"),
    notes="attribute order is row_stable: TensorFlow sorts by row only",
)
def sparse_fill_empty_rows(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """All four outputs, in TensorFlow's order of entries."""
    return emit.domain_op("SparseFillEmptyRows", node.inputs, {"order": "row_stable"})


@handles(
    "RaggedFillEmptyRows",
    inputs=("value_rowids", "values", "nrows", "default_value"),
    differs="with nrows = 0 the row ids have shape (0,); TensorFlow's have (0, 1)",
)
def ragged_fill_empty_rows(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator under the same names."""
    return emit.domain_op("RaggedFillEmptyRows", node.inputs)


@handles("SparseReshape", inputs=("input_indices", "input_shape", "new_shape"))
def sparse_reshape(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator under the same names."""
    return emit.domain_op("SparseReshape", node.inputs)
