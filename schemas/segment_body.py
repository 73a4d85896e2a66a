"""The portable way to reduce rows by segment: one ScatterElements of their elements, linear in the data.

ScatterND takes whole rows, and is faster, but ONNX Runtime 1.32 reduces them on several threads without a lock: where
two threads add to one segment, additions are lost. ScatterElements runs on one thread; only of vectors is it fast.
"""

from __future__ import annotations

import math
from typing import Any

from onnx import TensorProto

from onnx_sparse.schemas.declaration import FLOATS, DType, numpy_dtype
from onnx_sparse.schemas.function_body import Body, Value
from onnx_sparse.schemas.validation import Dim

#: Beyond the end of every tensor.
END = 2**62


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


class Segments:
    """Rows that are reduced by segment.

    Attributes:
        ids: int64 [K], the segment of each row.
        size: int64 [1], the number of segments.
        inner: The dimensions of the rows but the first, as far as they are known.
    """

    def __init__(self, b: Body, ids: Value, size: Value, inner: tuple[Dim, ...] | None) -> None:
        self.b = b
        self.ids = ids
        self.size = size
        self.inner = inner
        self._shape: Value | None = None

    def reduce(self, reduction: str, rows: Value, initial: Any, dtype: DType) -> Value:
        """Reduce rows [K, ...] into [size, ...], starting from the number `initial`; `dtype` is their element type."""
        return self._as_rows(self._reduce(reduction, rows, initial, dtype), rows)

    def sums_of(self, vector: Value, dtype: DType) -> Value:
        """The sum of a number of each row [K] by segment [size]."""
        return self._scatter("add", self.b.filled(self.size, 0, dtype), self.ids, vector)

    def counts(self) -> Value:
        """How many rows each segment has, int64 [size]."""
        return self.sums_of(self.b.filled(self.b.Shape(self.ids), 1), TensorProto.INT64)

    def as_column(self, vector: Value, rows: Value) -> Value:
        """A vector [size] reshaped to [size, 1, ...], with the rank of `rows`."""
        if self.inner is not None:
            axes = list(range(1, len(self.inner) + 1))
            return self.b.Unsqueeze(vector, self.b.constant(axes)) if axes else vector
        b = self.b
        ones = b.filled(b.Shape(b.Shape(rows, start=1)), 1)
        return b.Reshape(vector, b.Concat(b.Shape(vector), ones, axis=0), allowzero=1)

    def extremum(self, reduction: str, rows: Value, initial: Any, dtype: DType) -> Value:
        """Max or Min of the rows and `initial`, which propagates NaN."""
        reduced = self._with_nan(self._reduce(reduction, rows, initial, dtype), rows, dtype)
        return self._as_rows(reduced, rows)

    def extremum_or(self, reduction: str, start: Value, rows: Value, dtype: DType) -> Value:
        """Max or Min of the rows of each segment, which propagates NaN; what `start` has where there are none."""
        b = self.b
        # Any row of a segment will do to start from: whichever ScatterND leaves there is reduced with all others.
        any_row = b.ScatterND(start, b.Unsqueeze(self.ids, b.constant([-1])), rows)
        reduced = self._scatter(reduction, self._flat(any_row), self._places(rows), self._flat(rows))
        return self._as_rows(self._with_nan(reduced, rows, dtype), rows)

    def filled(self, rows: Value, value: Any, dtype: DType) -> Value:
        """A number everywhere, in the shape of the reduced rows."""
        return self.b.filled(self.shape(rows), value, dtype)

    def shape(self, rows: Value) -> Value:
        """The shape of the reduced rows; all rows have the same."""
        b = self.b
        if self._shape is None and self.inner == ():
            self._shape = self.size
        elif self._shape is None:
            is_known = self.inner is not None and all(isinstance(size, int) for size in self.inner)
            inner = b.constant(self.inner) if is_known else b.Shape(rows, start=1)
            self._shape = b.Concat(self.size, inner, axis=0)
        return self._shape

    def _reduce(self, reduction: str, rows: Value, initial: Any, dtype: DType) -> Value:
        """The elements of reduced rows, in a vector."""
        start = self._flat(self.filled(rows, initial, dtype))
        return self._scatter(reduction, start, self._places(rows), self._flat(rows))

    def _scatter(self, reduction: str, start: Value, places: Value, vector: Value) -> Value:
        return self.b.ScatterElements(start, places, vector, axis=0, reduction=reduction)

    def _flat(self, rows: Value) -> Value:
        return rows if self.inner == () else self.b.Reshape(rows, self.b.constant([-1]))

    def _as_rows(self, vector: Value, rows: Value) -> Value:
        return vector if self.inner == () else self.b.Reshape(vector, self.shape(rows), allowzero=1)

    def _places(self, rows: Value) -> Value:
        """Where the elements of the rows are reduced in the elements of the result, int64 [K * the size of a row]."""
        if self.inner == ():
            return self.ids
        b = self.b
        known = [size for size in self.inner or (None,) if isinstance(size, int)]
        is_known = self.inner is not None and len(known) == len(self.inner)
        width = b.constant(math.prod(known)) if is_known else b.ReduceProd(b.Shape(rows, start=1), keepdims=0)
        columns = b.Range(b.constant(0), width, b.constant(1))
        return self._flat(b.Add(b.Mul(b.Unsqueeze(self.ids, b.constant([-1])), width), columns))

    def _with_nan(self, reduced: Value, rows: Value, dtype: DType) -> Value:
        """The extremum of NaN depends on the order of the rows, so NaN is summed separately, and put in.

        Subtracting keeps the sign of zero, and static quantization leaves it alone: the range of the limits of a type
        would leave nothing of other numbers.
        """
        if dtype not in FLOATS:
            return reduced
        b = self.b
        only_nan = b.Where(b.IsNaN(rows), rows, b.constant(0, dtype))
        return b.Sub(reduced, self._reduce("add", only_nan, 0, dtype))


def last_plus_one(b: Body, ids: Value) -> Value:
    """The number of segments of sorted int64 ids, int64 [1]."""
    minus_one = b.constant([-1])
    return b.Add(b.Gather(b.Concat(minus_one, ids, axis=0), minus_one, axis=0), b.constant([1]))


def first(b: Body, rows: Value, count: Value) -> Value:
    """The first `count` rows."""
    return b.Slice(rows, b.constant([0]), count, b.constant([0]))


def divide_sum(segments: Segments, total: Value, dtype: DType) -> Value:
    """The sum by the number of rows, 0 where there are none. Integers divide toward zero; the result is a `dtype`."""
    b = segments.b
    count = b.Max(segments.counts(), b.constant(1))
    if dtype in FLOATS:
        return b.Div(total, segments.as_column(b.cast(count, dtype), total))
    wide = TensorProto.UINT64 if dtype == TensorProto.UINT64 else TensorProto.INT64
    return b.cast(b.Div(b.cast(total, wide), segments.as_column(b.cast(count, wide), total)), dtype)
