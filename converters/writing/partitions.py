"""Which values belong to which rows: a common form for row splits, row ids and lengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.coordinates import (
    column,
    element,
    one_for_each,
    sparse_rank,
    valid_indices,
)
from onnx_sparse.converters.writing.emitter import Emitter


@dataclass(frozen=True)
class Partition:
    """Which values belong to which rows; all tensors are int64.

    Attributes:
        row: The row of each value.
        place: The position of each value in its row.
        rows: The number of rows, a vector of one element.
        longest: The number of values in the longest row, a vector of one element.
        lengths: How many values each row has.
        splits: Where the rows begin and end.
    """

    row: Tensor
    place: Tensor
    rows: Tensor
    longest: Tensor
    lengths: Tensor
    splits: Tensor


@dataclass(frozen=True)
class Rows:
    """Values in rows: those of a matrix, of a sparse or of a ragged tensor; the values of a vector are in no rows.

    Attributes:
        values: The values.
        row: The row of each value, in a shape that broadcasts with theirs; None without rows.
        count: The number of rows, a scalar; None without rows.
    """

    values: Tensor
    row: Tensor | None = None
    count: Tensor | None = None


def rows_of_dense(values: Tensor, emit: Emitter) -> Rows:
    """The rows of a vector or matrix."""
    if values.rank < 2:
        return Rows(values)
    count = element(emit.shape_of(values), 0, emit)
    numbers = emit.op("Range", emit.constant(0), count, emit.constant(1))
    return Rows(values, emit.op("Unsqueeze", numbers, emit.constant([1])), count)


def rows_of_sparse(indices: Tensor, values: Tensor, dense_shape: Tensor, emit: Emitter) -> Rows:
    """The rows of a sparse vector or matrix, whose coordinates the model checks."""
    indices = valid_indices(indices, dense_shape, emit)
    values = one_for_each(values, indices, emit)
    if sparse_rank(indices, dense_shape) < 2:
        return Rows(values)
    return Rows(values, column(indices, 0, emit), element(dense_shape, 0, emit))


def rows_of_ragged(splits: Tensor, values: Tensor, emit: Emitter) -> Rows:
    """The rows of a ragged tensor."""
    partition = of_splits(splits, emit, emit.size(values, 0))
    return Rows(values, partition.row, element(partition.rows, 0, emit))


def splits_of(lengths: Tensor, emit: Emitter) -> Tensor:
    """The row splits of rows with the given lengths."""
    return emit.op("Concat", emit.constant([0]), emit.op("CumSum", lengths, emit.constant(0)), axis=0)


def of_nested_splits(nested: list[Tensor], values: Tensor, emit: Emitter) -> list[Partition]:
    """A Partition from each of the row splits of a ragged tensor, the outermost first; the model checks them."""
    rows = [emit.op("Sub", emit.shape_of(inner), emit.constant([1])) for inner in nested[1:]]
    counts = [*rows, emit.size(values, 0)]
    return [of_splits(splits, emit, count) for splits, count in zip(nested, counts, strict=True)]


def of_splits(splits: Tensor, emit: Emitter, count: Tensor | None = None) -> Partition:
    """A Partition from row splits. The row of a value is one less than the number of splits up to it.

    Args:
        splits: The row splits.
        emit: Receives the nodes.
        count: The number of values, for splits that the model must check: those that it is given.
    """
    splits = emit.cast(splits, TensorProto.INT64) if count is None else checked_splits(splits, count, emit)
    total = emit.op("Gather", splits, emit.constant([-1]), shape=(1,))
    # Empty rows at the end begin after the last value, so there is one position more than there are values.
    zeros = emit.op("Expand", emit.constant(0), emit.op("Add", total, emit.constant(1)))
    ones = emit.op("Expand", emit.constant(1), emit.shape_of(splits))
    begun = emit.op("ScatterElements", zeros, splits, ones, axis=0, reduction="add")
    counted = emit.op("CumSum", begun, emit.constant(0))
    row = emit.op("Sub", emit.op("Slice", counted, emit.constant([0]), total), emit.constant(1))
    lengths = emit.op("Sub", _without_first(splits, emit), _without_last(splits, emit))
    return _partition(row, splits, lengths, emit)


def of_rowids(rowids: Tensor, rows: Tensor, emit: Emitter) -> Partition:
    """A Partition from the row of each value and the number of rows, a vector of one element."""
    row = emit.cast(rowids, TensorProto.INT64)
    ones = emit.op("Expand", emit.constant(1), emit.shape_of(row))
    count = element(rows, 0, emit)
    (lengths,) = emit.domain_op("UnsortedSegmentSum", {"data": ones, "segment_ids": row, "num_segments": count})
    return _partition(row, splits_of(lengths, emit), lengths, emit)


def _partition(row: Tensor, splits: Tensor, lengths: Tensor, emit: Emitter) -> Partition:
    number = emit.op("Range", emit.constant(0), element(emit.shape_of(row), 0, emit), emit.constant(1))
    place = emit.op("Sub", number, emit.op("Gather", splits, row))
    or_none = emit.op("Concat", emit.constant([0]), lengths, axis=0)
    longest = emit.op("ReduceMax", or_none, emit.constant([0]), keepdims=1)
    return Partition(row, place, emit.shape_of(lengths), longest, lengths, splits)


def coordinates_of(partitions: list[Partition], emit: Emitter) -> Tensor:
    """The coordinates of the values in the dense tensor; the outermost dimension is the first partition."""
    columns = emit.op("Unsqueeze", partitions[0].row, emit.constant([1]))
    for depth, partition in enumerate(partitions):
        if depth:
            columns = emit.op("Gather", columns, partition.row, axis=0)
        columns = emit.op("Concat", columns, emit.op("Unsqueeze", partition.place, emit.constant([1])), axis=1)
    return columns


def dense_shape_of(partitions: list[Partition], emit: Emitter) -> Tensor:
    """The shape of the dense tensor that has room for all values."""
    return emit.op("Concat", partitions[0].rows, *(partition.longest for partition in partitions), axis=0)


def _without_first(vector: Tensor, emit: Emitter) -> Tensor:
    return emit.op("Slice", vector, emit.constant([1]), emit.constant([np.iinfo(np.int64).max]))


def _without_last(vector: Tensor, emit: Emitter) -> Tensor:
    return emit.op("Slice", vector, emit.constant([0]), emit.constant([-1]))


def number_of_segments(segment_ids: Tensor, emit: Emitter) -> Tensor:
    """The number of segments that sorted ids imply; a -1 prepended to them makes it 0 if there are no ids."""
    ids = emit.op("Concat", emit.constant([-1], segment_ids.dtype), segment_ids, shape=(None,), axis=0)
    last = emit.op("Gather", ids, emit.constant(-1), shape=(), axis=0)
    return emit.op("Add", last, emit.like(1, last), shape=())


def checked_splits(splits: Tensor, count: Tensor, emit: Emitter) -> Tensor:
    """The same splits as int64; the model refuses those that do not begin with 0, decrease or end with another count.

    Args:
        splits: The row splits.
        count: The number of values, a scalar or a vector of one element.
        emit: Receives the nodes.
    """
    number = emit.op("Reshape", emit.cast(count, TensorProto.INT64), emit.constant([]), shape=())
    inputs = {"row_splits": emit.cast(splits, TensorProto.INT64), "num_values": number}
    (checked,) = emit.domain_op("ValidateRowSplits", inputs)
    return checked
