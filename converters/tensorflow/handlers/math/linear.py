"""tf.raw_ops.MatMul, BatchMatMul and its V2 and V3, Einsum, MatrixDeterminant; of small matrices MatrixInverse,
Cholesky and MatrixTriangularSolve.
"""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering import triangular
from onnx_sparse.converters.writing.lowering.einsum import einsum
from onnx_sparse.converters.writing.lowering.inverse import LIMITS, inverse, solution

_NUMBERS = ("all numbers",)


@handles("MatMul", to="MatMul", dtypes=_NUMBERS, ignored=("grad_a", "grad_b"))
def mat_mul(node: Node, emit: Emitter) -> Tensor:
    """The product of two matrices, either of which may be transposed."""
    a, b = node["a"], node["b"]
    for matrix in (a, b):
        if matrix.rank != 2:
            raise Unsupported(f"{matrix} is not a matrix")
    if node.attributes["transpose_a"]:
        a = emit.op("Transpose", a, perm=[1, 0])
    if node.attributes["transpose_b"]:
        b = emit.op("Transpose", b, perm=[1, 0])
    return emit.op("MatMul", a, b)


@handles("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", to="MatMul", dtypes=_NUMBERS,
         ignored=("grad_x", "grad_y"))  # fmt: skip
def batch_mat_mul(node: Node, emit: Emitter) -> Tensor:
    """The products of matrices, in batches that are broadcast."""
    x, y = (_adjoint(node[name], emit) if node.attributes[f"adj_{name}"] else node[name] for name in ("x", "y"))
    dtype = node.dtypes[0]
    return emit.op("MatMul", emit.cast(x, dtype), emit.cast(y, dtype))


def _adjoint(x: Tensor, emit: Emitter) -> Tensor:
    """The matrices transposed; they are real."""
    rank = x.rank
    return emit.op("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


@handles("MatrixDeterminant", to="Det", dtypes=("float",))
def determinant(node: Node, emit: Emitter) -> Tensor:
    """The determinants of matrices."""
    if node["input"].dtype != TensorProto.FLOAT:
        raise Unsupported("ONNX Runtime has determinants of float only")
    return emit.op("Det", node["input"])


@handles("Einsum", to="MatMul", dtypes=("float16", "bfloat16", "float", "double", "int32", "int64"))
def einsum_of_equation(node: Node, emit: Emitter) -> Tensor:
    """Einsum, as matrix products."""
    return einsum(node.attributes["equation"].decode(), node.all("inputs"), emit)


@handles(
    "MatrixInverse",
    to="GatherElements",
    dtypes=("float", "double"),
    notes=LIMITS,
    differs="the inverse of a singular matrix is not finite; TensorFlow raises",
)
def matrix_inverse(node: Node, emit: Emitter) -> Tensor:
    """The inverse."""
    made = inverse(node["input"], emit)
    return _transposed(made, emit) if node.attributes.get("adjoint") else made


def _transposed(matrices: Tensor, emit: Emitter) -> Tensor:
    last = matrices.rank - 1
    return emit.op("Transpose", matrices, perm=[*range(last - 1), last, last - 1])


@handles(
    "MatrixSolve",
    to="GatherElements",
    dtypes=("float", "double"),
    notes=LIMITS,
    differs="equations of a singular matrix have no finite solution; TensorFlow raises. "
    "NaN and infinities spread to other elements",
)
def matrix_solve(node: Node, emit: Emitter) -> Tensor:
    """The solution of linear equations."""
    matrices = node["matrix"]
    return solution(_transposed(matrices, emit) if node.attributes["adjoint"] else matrices, node["rhs"], emit)


@handles(
    "Cholesky",
    to="Sqrt",
    dtypes=("float", "double"),
    notes=triangular.LIMITS,
    differs="the factor of a matrix that is not positive definite is not finite; TensorFlow raises",
)
def cholesky(node: Node, emit: Emitter) -> Tensor:
    """The lower triangular factor."""
    return triangular.cholesky(node["input"], emit)


@handles(
    "MatrixTriangularSolve",
    to="Div",
    dtypes=("float", "double"),
    notes=triangular.LIMITS,
    differs="equations of a singular matrix have no finite solution; TensorFlow raises",
)
def triangular_solve(node: Node, emit: Emitter) -> Tensor:
    """The solution of triangular equations."""
    lower, adjoint = (bool(node.attributes[name]) for name in ("lower", "adjoint"))
    return triangular.triangular_solve(node["matrix"], node["rhs"], emit, lower=lower, adjoint=adjoint)
