"""The inverse of small matrices, and the solution of their equations, written out: ONNX has no operator for them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

#: The largest matrices that are inverted; each row takes some 20 nodes.
LARGEST = 16

_LAST = np.iinfo(np.int64).max

#: What the coverage says of it.
LIMITS = (
    f"matrices of a known size up to {LARGEST}, by elimination with pivots: within 1e-6 (float) of the largest "
    "element times the condition number"
)


def inverse(matrices: Tensor, emit: Emitter) -> Tensor:
    """The inverse [..., M, M]; see `solution`."""
    size = _size(matrices)
    identity = emit.op("Expand", emit.constant(np.eye(size), matrices.dtype), emit.shape_of(matrices))
    return solution(matrices, identity, emit)


def solution(matrices: Tensor, right: Tensor, emit: Emitter) -> Tensor:
    """The solution [..., M, K] of linear equations, by Gauss-Jordan elimination with pivots.

    A column's pivot is its largest element that is left.

    Args:
        matrices: The factors of the unknowns [..., M, M].
        right: The right sides [..., M, K].
        emit: Receives the nodes.

    Raises:
        Unsupported: The size is not known or too large, or the element type is not float or double.
    """
    size = _size(matrices)
    given = emit.shape_of(right)
    batch = emit.op("Slice", emit.shape_of(matrices), emit.constant([0]), emit.constant([-2]))
    count = emit.op("ReduceProd", batch, emit.constant([0]), keepdims=1)
    columns = emit.op("Slice", given, emit.constant([-1]), emit.constant([_LAST]))
    square = emit.op("Concat", count, emit.constant([size, size]), axis=0)
    left = emit.op("Reshape", matrices, square, allowzero=1)
    sides = emit.op("Reshape", right, emit.op("Concat", count, emit.constant([size]), columns, axis=0), allowzero=1)
    both = emit.op("Concat", left, sides, axis=2)
    for column in range(size):
        both = _eliminated(both, column, size, emit)
    found = emit.op("Slice", both, emit.constant([size]), emit.constant([_LAST]), emit.constant([2]))
    return emit.op("Reshape", found, given, allowzero=1, shape=right.shape)


def _size(matrices: Tensor) -> int:
    if matrices.dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        raise Unsupported("only matrices of float and double are inverted")
    size = matrices.shape[-1] if matrices.shape is not None else None
    if size is None or size > LARGEST:
        raise Unsupported(f"ONNX has no matrix inverse; it is written out for known sizes up to {LARGEST}")
    return size


def _eliminated(rows: Tensor, k: int, size: int, emit: Emitter) -> Tensor:
    """The rows of equations [B, size, size + K] after unknown k has been removed from all but row k."""
    numbers, here = np.arange(size), emit.constant(k)
    is_left, is_here = emit.constant(numbers >= k), emit.constant(numbers == k)
    sizes = emit.op("Abs", emit.op("Gather", rows, here, axis=2))
    left = emit.op("Where", is_left, sizes, emit.like(-1, rows))
    pivot = emit.op("ArgMax", left, axis=1, keepdims=1)
    order = emit.op("Where", emit.op("Equal", pivot, emit.constant(numbers)), here, emit.constant(numbers))
    order = emit.op("Unsqueeze", emit.op("Where", is_here, pivot, order), emit.constant([2]))
    rows = emit.op("GatherElements", rows, emit.op("Expand", order, emit.shape_of(rows)), axis=1)
    factors = emit.op("Gather", rows, emit.constant([k]), axis=2)
    row = emit.op("Gather", rows, emit.constant([k]), axis=1)
    row = emit.op("Div", row, emit.op("Gather", row, emit.constant([k]), axis=2))
    rest = emit.op("Sub", rows, emit.op("Mul", factors, row))
    return emit.op("Where", emit.op("Unsqueeze", is_here, emit.constant([1])), row, rest)
