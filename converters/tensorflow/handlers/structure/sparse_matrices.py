"""tf.raw_ops of CSRSparseMatrix: made of sparse tensors, multiplied, and turned into tensors again.

Such a matrix is converted as its coordinates, values and shape. Batches of matrices are refused.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, Node, structure
from onnx_sparse.converters.tensorflow.handlers.sparse_tensors.arithmetic import sparse_tensor_dense_mat_mul
from onnx_sparse.converters.tensorflow.importing.attributes import Attributes
from onnx_sparse.converters.tensorflow.importing.values import SparseMatrix, Value
from onnx_sparse.converters.writing import reads
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter


@structure("SparseTensorToCSRSparseMatrix")
def from_sparse_tensor(node: GraphNode, emit: InferringEmitter) -> Value:
    """The coordinates, values and shape of a sparse tensor."""
    indices, values, shape = node.tensors()
    if shape.shape != (2,) and (indices.shape is None or indices.shape[-1] != 2):
        raise Unsupported("only single matrices are converted, of a sparse tensor whose rank is known to be 2")
    return SparseMatrix(indices, values, shape)


@structure("CSRSparseMatrixToSparseTensor")
def to_sparse_tensor(node: GraphNode, emit: InferringEmitter) -> tuple[Value, ...]:
    """The coordinates, values and shape."""
    matrix = _matrix(node.values()[0])
    return matrix.indices, matrix.values, matrix.shape


@structure("CSRSparseMatrixToDense")
def to_dense(node: GraphNode, emit: InferringEmitter) -> Value:
    """Zeros with the values at their coordinates."""
    return _dense(_matrix(node.values()[0]), emit)


@structure("SparseMatrixMatMul")
def mat_mul(node: GraphNode, emit: InferringEmitter) -> Value:
    """The product of a sparse and a dense matrix."""
    a, b = node.values()
    if not isinstance(b, Tensor):
        raise Unsupported("its second input is not a dense matrix")
    attributes = node.attributes
    a = _turned(_matrix(a), _is_turned(attributes, "a"), emit)
    b = emit.op("Transpose", b, perm=[1, 0]) if _is_turned(attributes, "b") else b
    made = _product(a, b, emit)
    is_turned = attributes["transpose_output"]
    _ = attributes["conjugate_output"]  # the numbers are real
    return emit.op("Transpose", made, perm=[1, 0]) if is_turned else made


@structure("SparseMatrixSparseMatMul")
def sparse_mat_mul(node: GraphNode, emit: InferringEmitter) -> Value:
    """The product of two sparse matrices, computed as a dense one; an entry may be 0, as in TensorFlow."""
    attributes = node.attributes
    a, b = (
        _turned(_matrix(value), _is_turned(attributes, name), emit)
        for name, value in zip("ab", node.values(), strict=True)
    )
    made = _product(a, _dense(b, emit), emit)
    marked = _product(_marked(a, emit), _dense(_marked(b, emit), emit), emit)
    places = emit.op("NonZero", emit.op("Greater", marked, emit.like(0, marked)))
    indices = emit.op("Transpose", places, perm=[1, 0], shape=(None, 2))
    return SparseMatrix(indices, emit.op("GatherND", made, indices), emit.shape_of(made))


def _matrix(value: Value) -> SparseMatrix:
    if not isinstance(value, SparseMatrix):
        raise Unsupported("its input is not a sparse matrix")
    return value


def _is_turned(attributes: Attributes, name: str) -> bool:
    """Whether a matrix is transposed; the adjoint one of real numbers is the same."""
    return bool(attributes[f"transpose_{name}"]) != bool(attributes[f"adjoint_{name}"])


def _turned(matrix: SparseMatrix, is_turned: bool, emit: InferringEmitter) -> SparseMatrix:
    if not is_turned:
        return matrix
    back = emit.constant([1, 0])
    indices = emit.op("Gather", matrix.indices, back, axis=1)
    return SparseMatrix(indices, matrix.values, emit.op("Gather", matrix.shape, back))


def _marked(matrix: SparseMatrix, emit: InferringEmitter) -> SparseMatrix:
    """The matrix with ones for its values."""
    ones = emit.op("Expand", emit.constant(np.float32(1), TensorProto.FLOAT), emit.shape_of(matrix.values))
    return SparseMatrix(matrix.indices, ones, matrix.shape)


def _dense(matrix: SparseMatrix, emit: InferringEmitter) -> Tensor:
    zeros = emit.op("Expand", emit.like(0, matrix.values), matrix.shape, shape=(None, None))
    return emit.op("ScatterND", zeros, matrix.indices, matrix.values)


def _product(a: SparseMatrix, b: Tensor, emit: InferringEmitter) -> Tensor:
    inputs = reads.Attributes({"a_indices": a.indices, "a_values": a.values, "a_shape": a.shape, "b": b}, "input")
    return sparse_tensor_dense_mat_mul(Node("", "SparseTensorDenseMatMul", inputs), emit)[0]
