"""EmbeddingSegments* and EmbeddingBagOffsets*: a Gather, and a ScatterNDUpdate that reduces."""

from __future__ import annotations

from onnx_sparse.converters.openvino.extensions.segment import extremum
from onnx_sparse.converters.openvino.extensions.subgraph import Subgraph, Value, Write
from onnx_sparse.schemas import embedding, embedding_bag


def _segments(b: Subgraph) -> list[Value]:
    ids, count = b.int64(b.input("segment_ids")), b.vector(b.int64(b.input("num_segments")))
    if b.attribute("negative_indices") == "drop":
        ids = b.where(b.ops.less(b.int64(b.input("indices")), b.integer(0)), count, ids)
    return _reduced(b, ids, count)


def _bags(b: Subgraph) -> list[Value]:
    """The bag of an entry is the number of offsets up to its position, less one."""
    ops = b.ops
    indices, offsets = b.int64(b.input("indices")), b.int64(b.input("offsets"))
    one, entries, count = b.integer(1), b.size(indices), b.size(offsets)
    ones = b.full(one, count)
    begins = b.scatter("sum", b.integer(0), offsets, ones, ops.add(entries, b.ints(1)))
    bags = ops.subtract(b.slice(ops.cum_sum(begins, b.integer(0)), b.ints(0), entries), one)
    if b.attribute("include_last_offset") != "false":
        count = ops.subtract(count, b.ints(1))  # the last offset begins a bag beyond the others, which is dropped
    dropped = ops.less(bags, b.integer(0))
    padding = b.given("padding_index")
    if padding is not None:
        dropped = ops.logical_or(dropped, ops.equal(indices, b.int64(padding)))
    if b.attribute("negative_indices") == "drop":
        dropped = ops.logical_or(dropped, ops.less(indices, b.integer(0)))
    return _reduced(b, b.where(dropped, count, bags), count)


def _reduced(b: Subgraph, segments: Value, count: Value) -> list[Value]:
    """The looked-up rows reduced by segment; those of segments at or beyond `count` are dropped."""
    ops = b.ops
    table = b.input("emb_table")
    # The index of a dropped entry must not be checked, so 0 replaces it.
    indices = ops.multiply(b.int64(b.input("indices")), b.int64(ops.less(segments, count)))
    rows = b.wide(b.gather(table, indices))
    zero = b.like(0, rows)
    if b.op.reduction == "max":
        made = extremum(b, "Max", table, segments, rows, count)
        made = b.where(_empty(b, segments, count, made), zero, made)
    else:
        made = _sum(b, segments, count, rows)
    default = b.given("default_index")
    if default is not None:
        index = b.int64(default)
        row = ops.convert_like(b.gather(table, ops.maximum(index, b.integer(0))), made)
        row = b.where(ops.less(index, b.integer(0)), zero, row)
        made = b.where(_empty(b, segments, count, made), row, made)
    return [ops.convert_like(b.wrapped(made, table), table)]


def _sum(b: Subgraph, segments: Value, count: Value, rows: Value) -> Value:
    """The sums of rows times weights, which Mean and SqrtN divide."""
    ops = b.ops
    zero, one = b.like(0, rows), b.like(1, rows)
    weights = b.given("per_sample_weights")
    if weights is not None:
        # Empty weights mean ones: the first K elements of weights followed by ones are the weights if there are any.
        number = b.size(segments)
        weights = b.slice(b.concat([ops.convert_like(weights, rows), b.full(one, number)]), b.ints(0), number)
        rows = ops.multiply(rows, b.column(weights, rows))
    total = b.scatter("sum", zero, segments, rows, count)
    if b.op.reduction == "sum":
        return total
    square = b.op.reduction == "sqrtn"
    if weights is None:
        divisor = b.counts(segments, count, rows)
    else:
        terms = ops.multiply(weights, weights) if square else weights
        divisor = b.scatter("sum", zero, segments, terms, count)
    divisor = b.column(ops.sqrt(divisor) if square else divisor, total)
    none = ops.equal(divisor, zero)
    return ops.select(none, zero, ops.divide(total, ops.select(none, one, divisor)))


def _empty(b: Subgraph, segments: Value, count: Value, rows: Value) -> Value:
    """Whether each segment has no entry, as a column."""
    return b.ops.equal(b.column(b.counts(segments, count, rows), rows), b.like(0, rows))


WRITERS: dict[str, Write] = {
    **{op.name: _segments for op in embedding.FAMILY.ops},
    **{op.name: _bags for op in embedding_bag.FAMILY.ops},
}
