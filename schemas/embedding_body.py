"""The portable way to look rows up and reduce them: Gather and one ScatterND with a reduction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import FLOATS
from onnx_sparse.schemas.function_body import Body, Value
from onnx_sparse.schemas.segment_body import as_column, counts, extremum, first, lowest, scatter_reduce


@dataclass(frozen=True)
class Entries:
    """The entries that are looked up.

    Attributes:
        indices: The row of each entry [k].
        ids: int64 [k], the bag or segment of each entry.
        size: int64 [1], the number of bags or segments.
        weights: The weight of each entry [k] in the compute type; None where all are 1.
    """

    indices: Value
    ids: Value
    size: Value
    weights: Value | None = None


def first_weights(b: Body, kept: Value) -> Value | None:
    """The weights of the first `kept` entries in the compute type; None where none are given."""
    if "per_sample_weights" not in b.given:
        return None
    dtype = b.compute_type("T")
    # An empty input means ones: the first K of the weights followed by K ones are the weights if there are any.
    ones = b.Expand(b.constant(1, dtype), b.Shape("indices"))
    return first(b, b.Concat(b.cast("per_sample_weights", dtype), ones, axis=0), kept)


def write_sum(b: Body, entries: Entries) -> None:
    """Write the output of a (weighted) sum."""
    _write(b, _total(b, entries), counts(b, entries.ids, entries.size))


def write_quotient(b: Body, entries: Entries, square: bool) -> None:
    """Write the output of a sum that is divided by that of the weights, or by the root of that of their squares."""
    dtype = b.compute_type("T")
    total, count = _total(b, entries), counts(b, entries.ids, entries.size)
    zero = b.constant(0, dtype)
    if entries.weights is None:
        divisor = b.cast(count, dtype)
    else:
        terms = b.Mul(entries.weights, entries.weights) if square else entries.weights
        divisor = scatter_reduce(b, "add", terms, entries.ids, entries.size, zero)
    column = as_column(b, b.Sqrt(divisor) if square else divisor, total)
    _write(b, b.Where(b.Equal(column, zero), zero, b.Div(total, column)), count)


def write_maximum(b: Body, entries: Entries) -> None:
    """Write the output of a maximum."""
    dtype = b.compute_type("T")
    count = counts(b, entries.ids, entries.size)
    start = -np.inf if dtype in FLOATS else lowest(dtype)
    reduced = extremum(b, "max", _rows(b, entries), entries.ids, entries.size, dtype, start)
    if dtype in FLOATS:  # ORT lacks Where for some integer types; it has Mul
        filled = as_column(b, b.cast(count, TensorProto.BOOL), reduced)
        reduced = b.Where(filled, reduced, b.constant(0, dtype))
    else:
        filled = as_column(b, b.cast(b.cast(count, TensorProto.BOOL), dtype), reduced)
        reduced = b.Mul(reduced, filled)
    _write(b, reduced, count)


def _rows(b: Body, entries: Entries) -> Value:
    return b.cast(b.Gather("emb_table", entries.indices, axis=0), b.compute_type("T"))


def _total(b: Body, entries: Entries) -> Value:
    rows = _rows(b, entries)
    if entries.weights is not None:
        rows = b.Mul(rows, as_column(b, entries.weights, rows))
    return scatter_reduce(b, "add", rows, entries.ids, entries.size, b.constant(0, b.compute_type("T")))


def _write(b: Body, reduced: Value, count: Value) -> None:
    """Put the default row into empty segments and write the output."""
    reduced = b.cast(reduced, b.types["T"])
    if "default_index" in b.given:
        index = b.Reshape(b.int64("default_index"), b.constant([1]))
        row = b.Gather("emb_table", b.Compress(index, b.GreaterOrEqual(index, b.constant([0])), axis=0), axis=0)
        zero = b.cast(
            b.Expand(b.constant(0), b.Concat(b.constant([1]), b.Shape(reduced, start=1), axis=0)), b.types["T"]
        )
        candidates = b.Concat(reduced, zero, row, axis=0)  # the last of them is the default
        own = b.Range(b.constant(0), b.Size(count), b.constant(1))
        reduced = b.Gather(candidates, b.Where(b.cast(count, TensorProto.BOOL), own, b.constant(-1)), axis=0)
    b.move("output", reduced)
