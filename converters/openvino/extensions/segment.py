"""Segment* and UnsortedSegment*: a ScatterNDUpdate with a reduction."""

from __future__ import annotations

from functools import partial

import numpy as np

from onnx_sparse.converters.openvino.element_types import ONNX_TYPES
from onnx_sparse.converters.openvino.extensions.subgraph import Subgraph, Value, Write, element_type, is_float
from onnx_sparse.schemas.segment_body import highest, lowest


def _last_and_one(b: Subgraph, segments: Value) -> Value:
    """The number of segments if none is given; a -1 prepended to the ids makes it 0 if there are no ids."""
    last = b.slice(b.concat([b.ints(-1), segments]), b.ints(-1), b.ints(2**31 - 1))
    return b.ops.add(last, b.ints(1))


def _sorted(b: Subgraph, kind: str) -> list[Value]:
    ops = b.ops
    data, segments = b.input("data"), b.int64(b.input("segment_ids"))
    given = b.given("num_segments")
    if given is None:
        count = _last_and_one(b, segments)
    else:
        wanted = b.vector(b.int64(given))
        count = b.where(ops.less(wanted, b.ints(0)), _last_and_one(b, segments), wanted)
    rows = b.wide(data)
    if kind in ("Max", "Min"):
        made = extremum(b, kind, data, segments, rows, count)
        empty = ops.equal(b.column(b.counts(segments, count, rows), made), b.like(0, rows))
        fill = 0 if b.attribute("fill_mode") == "ZERO" else _worst(data, kind)
        made = b.where(empty, _constant(b, fill, rows), made)
    else:
        made = _accumulated(b, kind, segments, rows, count, data)
    return [ops.convert_like(made, data)]


def _unsorted(b: Subgraph, kind: str) -> list[Value]:
    ops = b.ops
    data, segments = b.input("data"), b.int64(b.input("segment_ids"))
    count = b.vector(b.int64(b.input("num_segments")))
    rank = b.rank("segment_ids")
    segments = ops.reshape(segments, b.ints(-1), False) if rank else b.vector(segments)
    inner = b.rest(ops.shape_of(data), rank)
    rows = b.wide(ops.reshape(data, b.concat([b.size(segments), inner]), False))
    segments = b.where(ops.less(segments, b.integer(0)), count, segments)  # a negative id drops its slice
    if kind in ("Max", "Min"):
        if b.attribute("initial").endswith("_INF"):
            made = extremum(b, kind, data, segments, rows, count)
        else:
            made = _extremum_from(b, kind, _worst(data, kind), segments, rows, count)
    else:
        made = _accumulated(b, kind, segments, rows, count, data)
    return [ops.convert_like(made, data)]


def _accumulated(b: Subgraph, kind: str, segments: Value, rows: Value, count: Value, data: Value) -> Value:
    """The sums, products or means of the rows of each segment."""
    if kind == "Mean":
        return _mean(b, segments, rows, count, data)
    made = b.scatter(kind.lower(), b.like(int(kind == "Prod"), rows), segments, rows, count)
    return b.wrapped(made, data)


def _mean(b: Subgraph, segments: Value, rows: Value, count: Value, data: Value) -> Value:
    ops = b.ops
    total = _accumulated(b, "Sum", segments, rows, count, data)
    divisor = b.column(ops.maximum(b.counts(segments, count, rows), b.like(1, rows)), total)
    if is_float(rows):
        return ops.divide(total, divisor)
    sign = ops.sign(total)
    return ops.multiply(sign, b.quotient(ops.multiply(sign, total), divisor))


def extremum(b: Subgraph, kind: str, data: Value, segments: Value, rows: Value, count: Value) -> Value:
    """The greatest (`Max`) or least (`Min`) elements by segment of rows, which are `wide` rows of `data`.

    What an empty segment has is an infinity for floats, or the worst number of the type.
    """
    start = _infinity(kind) if is_float(rows) else _worst(data, kind)
    return _extremum_from(b, kind, start, segments, rows, count)


def _extremum_from(b: Subgraph, kind: str, start: float, segments: Value, rows: Value, count: Value) -> Value:
    ops = b.ops
    made = b.scatter(kind.lower(), _constant(b, start, rows), segments, rows, count)
    if not is_float(rows):
        return made
    # The reduction of ScatterNDUpdate ignores NaN.
    nans = ops.convert(ops.not_equal(rows, rows), "f32")
    found = b.scatter("sum", b.like(0, nans), segments, nans, count)
    return ops.select(ops.greater(found, b.like(0, found)), b.like(np.nan, made), made)


def _constant(b: Subgraph, value: float, like: Value) -> Value:
    return b.ops.constant(np.array(value, like.get_element_type().to_dtype()))


def _worst(data: Value, kind: str) -> float:
    """The lowest finite value of the type for a maximum, the highest for a minimum."""
    dtype = ONNX_TYPES[element_type(data)]
    return lowest(dtype) if kind == "Max" else highest(dtype)


def _infinity(kind: str) -> float:
    return -np.inf if kind == "Max" else np.inf


_KINDS = ("Sum", "Mean", "Max", "Min", "Prod")

WRITERS: dict[str, Write] = {
    **{f"Segment{kind}": partial(_sorted, kind=kind) for kind in _KINDS},
    **{f"UnsortedSegment{kind}": partial(_unsorted, kind=kind) for kind in _KINDS},
}
