"""Which values belong to which rows: a common form for row splits, row ids and lengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.coordinates import element
from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import Tensor


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


def splits_of(lengths: Tensor, emit: Emitter) -> Tensor:
    """The row splits of rows with the given lengths."""
    return emit.ints("Concat", emit.integers(0), emit.ints("CumSum", lengths, emit.integer(0)), axis=0)


def of_splits(splits: Tensor, emit: Emitter) -> Partition:
    """A Partition from row splits. The row of a value is one less than the number of splits up to it."""
    splits = emit.cast(splits, TensorProto.INT64)
    total = emit.ints("Slice", splits, emit.integers(-1), emit.integers(np.iinfo(np.int64).max))
    # Empty rows at the end begin after the last value, so there is one position more than there are values.
    zeros = emit.ints("Expand", emit.integer(0), emit.ints("Add", total, emit.integer(1)))
    ones = emit.ints("Expand", emit.integer(1), emit.ints("Shape", splits))
    begun = emit.ints("ScatterElements", zeros, splits, ones, axis=0, reduction="add")
    counted = emit.ints("CumSum", begun, emit.integer(0))
    row = emit.ints("Sub", emit.ints("Slice", counted, emit.integers(0), total), emit.integer(1))
    lengths = emit.ints("Sub", _without_first(splits, emit), _without_last(splits, emit))
    return _partition(row, splits, lengths, emit)


def of_rowids(rowids: Tensor, rows: Tensor, emit: Emitter) -> Partition:
    """A Partition from the row of each value and the number of rows, a vector of one element."""
    row = emit.cast(rowids, TensorProto.INT64)
    ones = emit.ints("Expand", emit.integer(1), emit.ints("Shape", row))
    count = element(rows, 0, emit)
    (lengths,) = emit.domain_op("UnsortedSegmentSum", {"data": ones, "segment_ids": row, "num_segments": count})
    return _partition(row, splits_of(lengths, emit), lengths, emit)


def _partition(row: Tensor, splits: Tensor, lengths: Tensor, emit: Emitter) -> Partition:
    number = emit.ints("Range", emit.integer(0), element(emit.ints("Shape", row), 0, emit), emit.integer(1))
    place = emit.ints("Sub", number, emit.ints("Gather", splits, row))
    or_none = emit.ints("Concat", emit.integers(0), lengths, axis=0)
    longest = emit.ints("ReduceMax", or_none, emit.integers(0), keepdims=1)
    return Partition(row, place, emit.ints("Shape", lengths), longest, lengths, splits)


def _without_first(vector: Tensor, emit: Emitter) -> Tensor:
    return emit.like("Slice", vector, emit.integers(1), emit.integers(np.iinfo(np.int64).max))


def _without_last(vector: Tensor, emit: Emitter) -> Tensor:
    return emit.like("Slice", vector, emit.integers(0), emit.integers(-1))
