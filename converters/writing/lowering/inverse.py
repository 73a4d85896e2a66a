"""The inverse of small matrices, written out: ONNX has no operator for it."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

#: The largest matrices that are inverted; each row takes some 20 nodes.
LARGEST = 16

#: What the coverage says of it.
LIMITS = (
    f"matrices of a known size up to {LARGEST}, by elimination with pivots: within 1e-6 (float) of the largest "
    "element times the condition number"
)


def inverse(matrices: Tensor, emit: Emitter) -> Tensor:
    """The inverse [..., M, M] by Gauss-Jordan elimination; a column's pivot is its largest element that is left.

    Raises:
        Unsupported: The size is not known or too large, or the element type is not float or double.
    """
    if matrices.dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        raise Unsupported("only matrices of float and double are inverted")
    size = matrices.shape[-1] if matrices.shape is not None else None
    if size is None or size > LARGEST:
        raise Unsupported(f"ONNX has no matrix inverse; it is written out for known sizes up to {LARGEST}")
    shape = emit.shape_of(matrices)
    batch = emit.op("Slice", shape, emit.constant([0]), emit.constant([-2]))
    count = emit.op("ReduceProd", batch, emit.constant([0]), keepdims=1)
    square = emit.op("Concat", count, emit.constant([size, size]), axis=0)
    left = emit.op("Reshape", matrices, square, allowzero=1)
    identity = emit.op("Expand", emit.constant(np.eye(size), matrices.dtype), square)
    both = emit.op("Concat", left, identity, axis=2)
    for column in range(size):
        both = _eliminated(both, column, size, emit)
    right = emit.op("Slice", both, emit.constant([size]), emit.constant([2 * size]), emit.constant([2]))
    return emit.op("Reshape", right, shape, allowzero=1)


def _eliminated(rows: Tensor, k: int, size: int, emit: Emitter) -> Tensor:
    """The rows of equations [B, size, 2 * size] after unknown k has been removed from all but row k."""
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
