"""Cholesky factors and triangular equations of small matrices, written out: ONNX has no operators for them."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

#: The largest matrices; each row takes some eight nodes.
LARGEST = 16
#: What the coverage says of it.
LIMITS = f"matrices of a known size up to {LARGEST}"


def cholesky(matrices: Tensor, emit: Emitter) -> Tensor:
    """The lower triangular factors [..., M, M], of which only the lower triangle is read.

    Matrices that are not positive definite have no finite factor.

    Raises:
        Unsupported: The size is not known or too large, or the element type is not float or double.
    """
    size, end = _size(matrices), matrices.rank - 1
    zero, left, columns = emit.like(0, matrices), matrices, []
    for k in range(size):
        here = emit.constant([k])
        column = emit.op("Gather", left, here, axis=end)  # [..., M, 1]
        pivot = emit.op("Sqrt", emit.op("Gather", column, here, axis=end - 1))
        is_below = emit.constant([[row >= k] for row in range(size)], TensorProto.BOOL)
        column = emit.op("Where", is_below, emit.op("Div", column, pivot), zero)
        columns.append(column)
        left = emit.op("Sub", left, emit.op("Mul", column, _transposed(column, emit)))
    return emit.op("Concat", *columns, axis=end) if columns else matrices


def triangular_solve(matrices: Tensor, right: Tensor, emit: Emitter, *, lower: bool, adjoint: bool) -> Tensor:
    """The x [..., M, K] of which a triangle of matrices [..., M, M], or of their transposes, makes the right side.

    Args:
        matrices: The matrices; what is not of the triangle is not read.
        right: The right sides [..., M, K]; the dimensions before them are broadcast.
        emit: Receives the nodes.
        lower: Whether the lower triangle is read.
        adjoint: Whether the matrices are transposed.

    Raises:
        Unsupported: The size is not known or too large, or the element type is not float or double.
    """
    size, end = _size(matrices), matrices.rank - 1
    if adjoint:
        matrices, lower = _transposed(matrices, emit), not lower
    found: dict[int, Tensor] = {}
    for k in range(size) if lower else reversed(range(size)):
        here = emit.constant([k])
        column = emit.op("Gather", matrices, here, axis=end)
        row = emit.op("Gather", right, here, axis=right.rank - 2)
        found[k] = emit.op("Div", row, emit.op("Gather", column, here, axis=end - 1))
        is_left = emit.constant([[row > k if lower else row < k] for row in range(size)], TensorProto.BOOL)
        rest = emit.op("Where", is_left, column, emit.like(0, column))
        right = emit.op("Sub", right, emit.op("Mul", rest, found[k]))
    rows = [found[k] for k in range(size)]
    return emit.op("Concat", *rows, axis=rows[0].rank - 2) if rows else right


def _size(matrices: Tensor) -> int:
    if matrices.dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        raise Unsupported("only matrices of float and double are factored")
    size = next((dim for dim in reversed((matrices.shape or ())[-2:]) if dim is not None), None)
    if size is None or size > LARGEST:
        raise Unsupported(f"ONNX has no operator for it; it is written out for known sizes up to {LARGEST}")
    return size


def _transposed(x: Tensor, emit: Emitter) -> Tensor:
    return emit.op("Transpose", x, perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2])
