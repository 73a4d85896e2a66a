"""Computations on the coordinates of sparse tensors, which several handlers need."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import Tensor, Unsupported


def sparse_rank(indices: Tensor, shape: Tensor) -> int:
    """The rank of a sparse tensor with coordinates [N, R] and a dense shape [R].

    Raises:
        Unsupported: If neither shape is known.
    """
    sizes = [*(indices.shape or ())[1:], *(shape.shape or ())[:1]]
    known = [size for size in sizes if size is not None]
    if not known:
        raise Unsupported("the rank of the sparse tensor is not known")
    return known[0]


def positions(indices: Tensor, shape: Tensor, rank: int, emit: Emitter) -> Tensor:
    """The position of each entry in the flattened dense tensor, from coordinates [N, R] and sizes [R]."""
    # Row k of the mask picks the sizes after dimension k, whose product is the stride of that dimension.
    after = emit.constant(np.triu(np.ones((rank, rank), bool), 1))
    factors = emit.ints("Where", after, shape, emit.integer(1))
    strides = emit.ints("ReduceProd", factors, emit.integers(1), keepdims=0)
    return emit.ints("ReduceSum", emit.ints("Mul", indices, strides), emit.integers(1), keepdims=0)


def in_row_major_order(
    indices: Tensor, values: Tensor, shape: Tensor, rank: int, emit: Emitter
) -> tuple[Tensor, Tensor]:
    """Coordinates and values, sorted by coordinates; entries with equal coordinates keep their order."""
    place = positions(indices, shape, rank, emit)
    outputs = (TensorProto.INT64, TensorProto.INT64)
    _, order = emit.node("", "TopK", (place, emit.ints("Shape", place)), outputs, {"largest": 0, "axis": 0})
    return emit.ints("Gather", indices, order), emit.like("Gather", values, order)


def column(indices: Tensor, index: int, emit: Emitter) -> Tensor:
    """One coordinate of each entry."""
    return emit.like("Gather", indices, emit.integer(index), axis=1)


def element(vector: Tensor, index: int, emit: Emitter) -> Tensor:
    """One element of a vector, as a scalar."""
    return emit.like("Gather", vector, emit.integer(index), axis=0)
