"""Slices dealt out to parts, and parts put together again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_LAST = np.iinfo(np.int64).max
#: Each part is a result of its node; a number in a file must not make a graph of unlimited size.
_MOST_PARTS = 65536


def dynamic_partition(emit: Emitter, data: Tensor, partitions: Tensor, count: int) -> tuple[Tensor, ...]:
    """The slices of each part, in their order; those of a number that is no part are in none.

    Args:
        emit: Receives the nodes.
        data: The slices [the shape of `partitions`, ...].
        partitions: The part of each slice.
        count: The number of parts.

    Raises:
        Unsupported: There are too many parts.
    """
    if count > _MOST_PARTS:
        raise Unsupported(f"{count} parts; at most {_MOST_PARTS} are written")
    if partitions.rank == 0:
        data, partitions = (emit.op("Unsqueeze", tensor, emit.constant([0])) for tensor in (data, partitions))
    if partitions.rank > 1:
        data = merged_axes(emit, data, 0, partitions.rank)
        partitions = emit.op("Reshape", partitions, emit.constant([-1]))
    parts = []
    for k in range(count):
        chosen = emit.op("Equal", partitions, emit.like(k, partitions))
        shape = None if data.shape is None else (None, *data.shape[1:])
        parts.append(emit.op("Compress", data, chosen, axis=0, shape=shape))
    return tuple(parts)


def dynamic_stitch(emit: Emitter, all_indices: Sequence[Tensor], all_data: Sequence[Tensor]) -> Tensor:
    """The slices of several tensors, each at its place; of those with one place, the last; zeros where none is.

    Args:
        emit: Receives the nodes.
        all_indices: The places of the slices of each tensor.
        all_data: The tensors [the shape of their indices, ...].
    """
    flat_indices, flat_data = [], []
    for indices, data in zip(all_indices, all_data, strict=True):
        flat_indices.append(emit.op("Reshape", emit.cast(indices, TensorProto.INT64), emit.constant([-1])))
        flat_data.append(merged_axes(emit, data, 0, indices.rank) if indices.rank != 1 else data)
    places = emit.op("Concat", *flat_indices, axis=0) if len(flat_indices) > 1 else flat_indices[0]
    rows = emit.op("Concat", *flat_data, axis=0) if len(flat_data) > 1 else flat_data[0]
    with_none = emit.op("Concat", emit.constant([-1]), places, axis=0)
    count = emit.op("Add", emit.op("ReduceMax", with_none, emit.constant([0]), keepdims=1), emit.constant([1]))
    sizes = emit.op("Slice", emit.shape_of(rows), emit.constant([1]), emit.constant([_LAST]), emit.constant([0]))
    nothing = emit.constant(np.array(b"", object)) if rows.dtype == TensorProto.STRING else emit.like(0, rows)
    shape = None if rows.shape is None else (None, *rows.shape[1:])
    zeros = emit.op("Expand", nothing, emit.op("Concat", count, sizes, axis=0), shape=shape)
    return emit.op("ScatterND", zeros, emit.op("Unsqueeze", places, emit.constant([1])), rows)


def merged_axes(emit: Emitter, data: Tensor, first: int, count: int) -> Tensor:
    """The tensor with `count` dimensions from the `first` on as one; none of them become one of size 1."""
    after = first + count
    sizes = _dimensions(emit, data, after, _LAST)
    merged = _dimensions(emit, data, first, after)
    # Reshape infers no dimension of an empty tensor.
    size = emit.op("ReduceProd", merged, emit.constant([0]), keepdims=1) if count else emit.constant([1])
    before = [_dimensions(emit, data, 0, first)] if first else []
    shape = None
    if data.shape is not None:
        known = data.shape[first:after]
        product = None if None in known else math.prod(size for size in known if size is not None)
        shape = (*data.shape[:first], product, *data.shape[after:])
    return emit.op("Reshape", data, emit.op("Concat", *before, size, sizes, axis=0), allowzero=1, shape=shape)


def _dimensions(emit: Emitter, data: Tensor, start: int, end: int) -> Tensor:
    return emit.op("Slice", emit.shape_of(data), emit.constant([start]), emit.constant([end]), emit.constant([0]))
