"""The portable way to reduce rows by segment: one ScatterND with a reduction, linear in the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import FLOATS, DType, numpy_dtype
from onnx_sparse.schemas.function_body import Body, Value


def lowest(dtype: DType) -> float:
    """The lowest finite value of an element type."""
    return _python_number(dtype, _limits(dtype).min)


def highest(dtype: DType) -> float:
    """The highest finite value of an element type."""
    return _python_number(dtype, _limits(dtype).max)


def _limits(dtype: DType) -> Any:
    from ml_dtypes import finfo, iinfo

    limits: Any = finfo if dtype in FLOATS else iinfo  # ml_dtypes has no type hints for them
    return limits(numpy_dtype(dtype))


def _python_number(dtype: DType, value: Any) -> float:
    return float(value) if dtype in FLOATS else int(value)


def scatter_reduce(b: Body, reduction: str, rows: Value, ids: Value, size: Value, initial: Value) -> Value:
    """Reduce rows [K, ...] into [size, ...] by int64 ids [K], starting from the scalar `initial`."""
    shape = b.Concat(size, b.Shape(rows, start=1), axis=0)
    return b.ScatterND(b.Expand(initial, shape), b.Unsqueeze(ids, b.constant([-1])), rows, reduction=reduction)


def counts(b: Body, ids: Value, size: Value) -> Value:
    """How many rows each segment has, int64 [size]."""
    ones = b.Expand(b.constant(1), b.Shape(ids))
    return scatter_reduce(b, "add", ones, ids, size, b.constant(0))


def as_column(b: Body, vector: Value, rows: Value) -> Value:
    """A vector [n] reshaped to [n, 1, ...], with the rank of `rows`."""
    ones = b.Expand(b.constant(1), b.Shape(b.Shape(rows, start=1)))
    return b.Reshape(vector, b.Concat(b.Shape(vector), ones, axis=0), allowzero=1)


def sorted_segments(b: Body, ids: Value, num_segments: Value | None) -> tuple[Value, Value, Value]:
    """The rows that sorted segments keep.

    Returns:
        ids: int64 [k], the ids below the number of segments.
        kept: int64 [1], k; the dropped rows are a suffix, because the ids are sorted.
        size: int64 [1], the number of segments; last id + 1 where it is -1 or not given.
    """
    ids = b.int64(ids)
    if num_segments is None:
        return ids, b.Shape(ids), _last_plus_one(b, ids)
    wanted = b.Reshape(b.int64(num_segments), b.constant([1]))
    size = b.Where(b.Less(wanted, b.constant(0)), _last_plus_one(b, ids), wanted)
    kept = b.ReduceSum(b.int64(b.Less(ids, size)), b.constant([0]), keepdims=1)
    return first(b, ids, kept), kept, size


def _last_plus_one(b: Body, ids: Value) -> Value:
    last = b.Slice(b.Concat(b.constant([-1]), ids, axis=0), b.constant([-1]), b.constant([2**62]))
    return b.Add(last, b.constant([1]))


def first(b: Body, rows: Value, count: Value) -> Value:
    """The first `count` rows."""
    return b.Slice(rows, b.constant([0]), count, b.constant([0]))


def extremum(b: Body, reduction: str, rows: Value, ids: Value, size: Value, dtype: DType, initial: Any) -> Value:
    """Max or Min that propagates NaN; `dtype` is the rows' element type."""
    start = b.constant(initial, dtype)
    if dtype not in FLOATS:
        return scatter_reduce(b, reduction, rows, ids, size, start)
    # ScatterND's result for NaN depends on the order of the rows, so NaN is reduced separately.
    is_nan = b.IsNaN(rows)
    worst = b.constant(-np.inf if reduction == "max" else np.inf, dtype)
    reduced = scatter_reduce(b, reduction, b.Where(is_nan, worst, rows), ids, size, start)
    any_nan = scatter_reduce(b, "max", b.cast(is_nan, TensorProto.INT32), ids, size, b.constant(0, TensorProto.INT32))
    return b.Where(b.cast(any_nan, TensorProto.BOOL), b.constant(np.nan, dtype), reduced)


def divide_sum(b: Body, total: Value, count: Value, dtype: DType) -> Value:
    """total / count by rows, 0 where the count is 0. Integers divide toward zero; the result has type `dtype`."""
    if dtype in FLOATS:
        divisor = b.cast(b.Max(count, b.constant(1)), dtype)
        return b.Div(total, as_column(b, divisor, total))
    wide = TensorProto.UINT64 if dtype == TensorProto.UINT64 else TensorProto.INT64
    divisor = b.cast(b.Max(count, b.constant(1)), wide)
    return b.cast(b.Div(b.cast(total, wide), as_column(b, divisor, total)), dtype)
