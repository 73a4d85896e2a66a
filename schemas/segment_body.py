"""The portable way to reduce rows by segment: in blocks, or by one ScatterElements of their elements.

Many rows of floats are reduced in blocks (`blocked_reduction`), which is several times as fast. A model that does not
know how many there are chooses in each run.

ScatterND takes whole rows, and is faster than ScatterElements, but ONNX Runtime 1.32 reduces them on several threads
without a lock: where two threads add to one segment, additions are lost. ScatterElements runs on one thread; only of
vectors is it fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onnx import TensorProto

from onnx_sparse.schemas.blocked_reduction import FEWEST_NUMBERS, TYPES, BlockedReduction, in_order
from onnx_sparse.schemas.element_types import FLOATS, DType, numpy_dtype
from onnx_sparse.schemas.function_body import Body, Value
from onnx_sparse.schemas.validation import Dim

#: Beyond the end of every tensor.
END = 2**62

#: How many numbers a row is taken to have where that is not known.
_USUAL_WIDTH = 64

#: Rows of fewer numbers are scattered as fast as they are sorted into blocks.
_NARROW = 8

#: How many segments for each entry are too many to look at the lengths of all.
_SPARSEST = 8


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


@dataclass(frozen=True)
class Rows:
    """The rows that are reduced.

    Attributes:
        every: Writes all of them, [K, *inner], on a body.
        some: Writes those of some entries [...], [..., *inner].
    """

    every: Callable[[Body], Value]
    some: Callable[[Body, Value], Value]

    @classmethod
    def of(cls, rows: Value) -> Rows:
        """The rows of a value [K, *inner]."""
        return cls(lambda b: rows, lambda b, entries: b.Gather(rows, entries, axis=0))


class Segments:
    """Rows that are reduced by segment.

    Attributes:
        ids: int64 [K], the segment of each row.
        size: int64 [1], the number of segments.
        inner: The dimensions of the rows but the first, as far as they are known.
        is_sorted: Whether the ids are known to be sorted.
    """

    def __init__(
        self, b: Body, ids: Value, size: Value, inner: tuple[Dim, ...] | None, *, is_sorted: bool = True
    ) -> None:
        self.b = b
        self.ids = ids
        self.size = size
        self.inner = inner
        self.is_sorted = is_sorted

    def on(self, branch: Body) -> Segments:
        """The same segments, for the nodes of a branch."""
        return Segments(branch, self.ids, self.size, self.inner, is_sorted=self.is_sorted)

    def total(self, rows: Rows, dtype: DType) -> Value:
        """The sum of the rows of each segment, [size, *inner]; `dtype` is their element type."""
        return self._chosen(
            dtype,
            lambda segments: segments._in_blocks("add", rows, dtype)[0],
            lambda segments: segments.reduce("add", rows.every(segments.b), 0, dtype),
        )

    def reduced(self, reduction: str, rows: Value, dtype: DType) -> Value:
        """The `sum`, `mean` or `prod` of the rows of each segment: that of no rows is 0, 0 and 1."""
        if reduction == "prod":
            return self.reduce("mul", rows, 1, dtype)
        total = self.total(Rows.of(rows), dtype)
        return total if reduction == "sum" else self._mean(total, dtype)

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

    def extremum(self, reduction: str, rows: Rows, initial: Any, dtype: DType) -> Value:
        """Max or Min of the rows and the number `initial`, which propagates NaN."""

        def scattered(segments: Segments) -> Value:
            every = rows.every(segments.b)
            reduced = segments._with_nan(segments._reduce(reduction, every, initial, dtype), every, dtype)
            return segments._as_rows(reduced, every)

        def blocked(segments: Segments, reduced: Value) -> Value:
            b, start = segments.b, segments.b.constant(initial, dtype)
            is_used = segments.as_column(b.cast(segments.counts(), TensorProto.BOOL), reduced)
            return b.Where(is_used, b.node(reduction.capitalize(), reduced, start)[0], start)

        return self._extremum(reduction, rows, dtype, blocked, scattered)

    def extremum_or(self, reduction: str, otherwise: Value | float, rows: Rows, dtype: DType) -> Value:
        """Max or Min of the rows of each segment, which propagates NaN; where there are none, a row or a number."""

        def scattered(segments: Segments) -> Value:
            b, every = segments.b, rows.every(segments.b)
            if isinstance(otherwise, Value):
                start = b.Expand(otherwise, segments.shape(every))
            else:
                start = segments.filled(every, otherwise, dtype)
            # Any row of a segment will do to start from: whichever ScatterND leaves there is reduced with all others.
            any_row = b.ScatterND(start, b.Unsqueeze(segments.ids, b.constant([-1])), every)
            reduced = segments.scatter(reduction, any_row, every, flat=True)
            return segments._as_rows(segments._with_nan(reduced, every, dtype), every)

        def blocked(segments: Segments, reduced: Value) -> Value:
            b, is_used = segments.b, segments.b.cast(segments.counts(), TensorProto.BOOL)
            other = otherwise if isinstance(otherwise, Value) else b.constant(otherwise, dtype)
            return b.Where(segments.as_column(is_used, reduced), reduced, other)

        return self._extremum(reduction, rows, dtype, blocked, scattered)

    def filled(self, rows: Value, value: Any, dtype: DType) -> Value:
        """A number everywhere, in the shape of the reduced rows."""
        return self.b.filled(self.shape(rows), value, dtype)

    def shape(self, rows: Value) -> Value:
        """The shape of the reduced rows; all rows have the same."""
        if self.inner == ():
            return self.size
        is_known = self.inner is not None and all(isinstance(size, int) for size in self.inner)
        inner = self.b.constant(self.inner) if is_known else self.b.Shape(rows, start=1)
        return self.b.Concat(self.size, inner, axis=0)

    def scatter(self, reduction: str, start: Value, rows: Value, *, flat: bool = False) -> Value:
        """Reduce rows [K, ...] into those of `start` [size, ...]; with `flat`, the elements in a vector."""
        reduced = self._scatter(reduction, self._flat(start), self._places(rows), self._flat(rows))
        return reduced if flat else self._as_rows(reduced, rows)

    def _chosen(
        self, dtype: DType, blocked: Callable[[Segments], Value], scattered: Callable[[Segments], Value]
    ) -> Value:
        """What is reduced in blocks, or scattered where that does not pay."""
        b, width = self.b, self._width()
        fewest = FEWEST_NUMBERS // (width or _USUAL_WIDTH)
        entries = [size for size in (b.size("indices"), b.size("data")) if size is not None]
        is_narrow = self.inner == () or (width is not None and width < _NARROW)
        if dtype not in TYPES or is_narrow or (entries and max(entries) <= fewest):
            return scattered(self)
        count = b.Shape(self.ids)
        are_many = b.And(b.Less(b.constant([fewest]), count), b.Less(self.size, b.Mul(count, b.constant([_SPARSEST]))))
        many, few = b.branch(), b.branch()
        blocked(self.on(many))
        scattered(self.on(few))
        chosen = b.choose(b.Squeeze(are_many, b.constant([0])), many, few, dtype)
        # What tools infer of the two branches they do not always put together.
        return chosen if width is None else self._as_rows(chosen, chosen)

    def _extremum(
        self,
        reduction: str,
        rows: Rows,
        dtype: DType,
        finished: Callable[[Segments, Value], Value],
        scattered: Callable[[Segments], Value],
    ) -> Value:
        """An extremum in blocks, finished, if no row has NaN; else scattered."""

        def blocked(segments: Segments) -> Value:
            b = segments.b
            reduced, numbers = segments._in_blocks(reduction, rows, dtype)
            has_nan = b.IsNaN(b.ReduceSum(numbers, keepdims=0))
            right, wrong = b.branch(), b.branch()
            finished(segments.on(right), reduced)
            scattered(segments.on(wrong))
            return b.choose(has_nan, wrong, right, dtype)

        return self._chosen(dtype, blocked, scattered)

    def _in_blocks(self, reduction: str, rows: Rows, dtype: DType) -> tuple[Value, Value]:
        """The rows reduced in blocks, and numbers of which one is NaN if a row has a NaN."""
        order = None if self.is_sorted else in_order(self.b, self.ids)

        def some(b: Body, entries: Value) -> Value:
            return rows.some(b, entries if order is None else b.Gather(order, entries, axis=0))

        def scatter(b: Body, start: Value, ids: Value, blocks: Value) -> Value:
            return Segments(b, ids, b.Shape(start, end=1), self.inner).scatter(reduction, start, blocks)

        width = self._width() or _USUAL_WIDTH
        return BlockedReduction(self.b, self.counts(), some, reduction, scatter, dtype, width).write()

    def _width(self) -> int | None:
        """How many numbers a row has, where that is known."""
        known = [size for size in self.inner or (None,) if isinstance(size, int)]
        return math.prod(known) if self.inner is not None and len(known) == len(self.inner) else None

    def _reduce(self, reduction: str, rows: Value, initial: Any, dtype: DType) -> Value:
        """The elements of reduced rows, in a vector."""
        return self.scatter(reduction, self.filled(rows, initial, dtype), rows, flat=True)

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
        b, known = self.b, self._width()
        width = b.ReduceProd(b.Shape(rows, start=1), keepdims=0) if known is None else b.constant(known)
        columns = b.Range(b.constant(0), width, b.constant(1))
        return self._flat(b.Add(b.Mul(b.Unsqueeze(self.ids, b.constant([-1])), width), columns))

    def _mean(self, total: Value, dtype: DType) -> Value:
        """The sum by the number of rows, 0 where there are none. Integers divide toward zero."""
        b = self.b
        count = b.Max(self.counts(), b.constant(1))
        if dtype in FLOATS:
            return b.Div(total, self.as_column(b.cast(count, dtype), total))
        wide = TensorProto.UINT64 if dtype == TensorProto.UINT64 else TensorProto.INT64
        return b.cast(b.Div(b.cast(total, wide), self.as_column(b.cast(count, wide), total)), dtype)

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
