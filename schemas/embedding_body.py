"""The portable way to look rows up and reduce them: Gather and one ScatterElements."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TensorProto

from onnx_sparse.schemas.function_body import Body, Value
from onnx_sparse.schemas.segment_body import Rows, Segments

#: The element types for which ONNX Runtime has Where.
_COMMON_TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64)


class Table:
    """The table of a lookup.

    Attributes:
        inner: The dimensions of its rows, as far as they are known.
    """

    def __init__(self, b: Body) -> None:
        self.b = b
        self.inner = b.inner("emb_table")

    def on(self, branch: Body) -> Table:
        """The same table, for the nodes of a branch."""
        return type(self)(branch)

    def rows(self, indices: Value) -> Value:
        """The rows of indices [...] in the compute type, [..., *inner]."""
        return self.b.cast(self.b.Gather("emb_table", indices, axis=0), self.b.compute_type("T"))

    def row_or_zeros(self, indices: Value) -> Value:
        """The row of one index [1], zeros of none [0]: [*inner], or [1, *inner] of some types."""
        b, found = self.b, self.rows(indices)
        dtype, zero = b.compute_type("T"), b.constant([0])
        if dtype in (TensorProto.FLOAT, TensorProto.DOUBLE):  # ORT computes it in double, in which not all integers fit
            return b.ReduceSum(found, zero, keepdims=0)
        zeros = b.filled(b.Concat(b.constant([1]), b.Shape("emb_table", start=1), axis=0), 0, dtype)
        return b.Gather(b.Concat(zeros, found, axis=0), b.constant([-1]), axis=0)


@dataclass(frozen=True)
class Entries:
    """The entries that are looked up.

    Attributes:
        table: What they are looked up in.
        indices: The row of each entry [k].
        segments: Their bags or segments.
        weights: The weight of each entry [k] in the compute type; None where all are 1.
    """

    table: Table
    indices: Value
    segments: Segments
    weights: Value | None = None

    @property
    def b(self) -> Body:
        """The body that they are in."""
        return self.segments.b

    @property
    def rows(self) -> Rows:
        """Their rows, times their weights."""

        def every(b: Body) -> Value:
            rows = self.table.on(b).rows(self.indices)
            return rows if self.weights is None else b.Mul(rows, self.segments.on(b).as_column(self.weights, rows))

        def some(b: Body, entries: Value) -> Value:
            rows = self.table.on(b).rows(b.Gather(self.indices, entries, axis=0))
            return rows if self.weights is None else b.Mul(rows, self._weights_of(b, entries, rows))

        return Rows(every, some)

    def _weights_of(self, b: Body, entries: Value, rows: Value) -> Value:
        """The weights of some entries [...], with the rank of their rows."""
        assert self.weights is not None
        weights = b.Gather(self.weights, entries, axis=0)
        if self.segments.inner is not None:
            last = [-1 - axis for axis in range(len(self.segments.inner))]
            return b.Unsqueeze(weights, b.constant(last)) if last else weights
        ones = b.filled(b.Sub(b.Shape(b.Shape(rows)), b.Shape(b.Shape(weights))), 1)
        return b.Reshape(weights, b.Concat(b.Shape(weights), ones, axis=0), allowzero=1)


def all_weights(b: Body) -> Value | None:
    """Weights in the compute type, at least one for each of the indices, in their order; None where none are given."""
    if "per_sample_weights" not in b.given:
        return None
    dtype = b.compute_type("T")
    weights = b.cast("per_sample_weights", dtype)
    if b.has_shape_of("per_sample_weights", "indices"):
        return weights
    # An empty input means ones: the first K of the weights followed by K ones are the weights if there are any.
    return b.Concat(weights, b.filled(b.Shape("indices"), 1, dtype), axis=0)


def write_reduction(entries: Entries) -> None:
    """Write the output of the operator's reduction of the (weighted) rows of each segment."""
    reduction = entries.b.op.reduction
    if reduction == "sum":
        _write(entries, _total(entries))
    elif reduction == "max":
        _write_maximum(entries)
    else:
        _write_quotient(entries, square=reduction == "sqrtn")


def _write_quotient(entries: Entries, square: bool) -> None:
    """Write the output of a sum that is divided by that of the weights, or by the root of that of their squares."""
    b, segments = entries.b, entries.segments
    dtype = b.compute_type("T")
    total = _total(entries)
    if entries.weights is None:
        divisor = b.cast(b.Max(segments.counts(), b.constant(1)), dtype)
    else:
        divisor = segments.sums_of(b.Mul(entries.weights, entries.weights) if square else entries.weights, dtype)
    column = segments.as_column(b.Sqrt(divisor) if square else divisor, total)
    if entries.weights is None:
        _write(entries, b.Div(total, column))
        return
    # Tools that calibrate a model refuse NaN, so nothing is divided by zero.
    is_zero, zero = b.Equal(column, b.constant(0, dtype)), b.constant(0, dtype)
    _write(entries, b.Where(is_zero, zero, b.Div(total, b.Where(is_zero, b.constant(1, dtype), column))))


def _write_maximum(entries: Entries) -> None:
    """Write the output of a maximum."""
    b, dtype = entries.b, entries.b.compute_type("T")
    otherwise = _default_row(entries.table) if "default_index" in b.given else 0
    b.output("output", entries.segments.extremum_or("max", otherwise, entries.rows, dtype))


def _total(entries: Entries) -> Value:
    return entries.segments.total(entries.rows, entries.b.compute_type("T"))


def _default_row(table: Table) -> Value:
    """The row of default_index in the compute type [...], zeros where that is -1; [1, ...] of some types."""
    b = table.b
    dtype = b.compute_type("T")
    constant = b.known.constants.get("default_index")
    if constant is not None:
        index = b.constant(int(constant) if dtype in _COMMON_TYPES else [int(constant)])
        return table.rows(index)
    index = b.as_vector("default_index")
    return table.row_or_zeros(b.Compress(index, b.GreaterOrEqual(index, b.constant([0])), axis=0))


def _write(entries: Entries, reduced: Value) -> None:
    """Put the default row into empty segments and write the output."""
    b, segments = entries.b, entries.segments
    if "default_index" in b.given:
        row, count = _default_row(entries.table), segments.counts()
        if b.compute_type("T") in _COMMON_TYPES:
            is_used = segments.as_column(b.cast(count, TensorProto.BOOL), reduced)
            reduced = b.Where(is_used, reduced, row)
        else:
            own = b.Range(b.constant(0), b.Size(count), b.constant(1))
            chosen = b.Where(b.cast(count, TensorProto.BOOL), own, segments.size)
            reduced = b.Gather(b.Concat(reduced, row, axis=0), chosen, axis=0)
    b.output("output", reduced)
