"""EmbeddingSegmentsSum, Mean and SqrtN: a Gather, and a ScatterNDUpdate that sums."""

from __future__ import annotations

from onnx_sparse.converters.openvino.extensions.subgraph import Subgraph, Value, Write


def _embedding(b: Subgraph) -> list[Value]:
    ops = b.ops
    table, segments = b.input("emb_table"), b.int64(b.input("segment_ids"))
    count = b.vector(b.int64(b.input("num_segments")))
    # The index of a dropped entry must not be checked, so 0 replaces it.
    indices = ops.multiply(b.int64(b.input("indices")), b.int64(ops.less(segments, count)))
    rows = b.wide(b.gather(table, indices))
    zero, one = b.like(0, rows), b.like(1, rows)
    weights = b.given("per_sample_weights")
    if weights is not None:
        # Empty weights mean ones: the first K elements of weights followed by ones are the weights if there are any.
        number = b.size(segments)
        weights = b.slice(b.concat([ops.convert_like(weights, rows), b.full(one, number)]), b.ints(0), number)
        rows = ops.multiply(rows, b.column(weights, rows))
    total = b.scatter("sum", zero, segments, rows, count)
    if b.op.name != "EmbeddingSegmentsSum":
        square = b.op.name == "EmbeddingSegmentsSqrtN"
        if weights is None:
            divisor = b.counts(segments, count, rows)
        else:
            terms = ops.multiply(weights, weights) if square else weights
            divisor = b.scatter("sum", zero, segments, terms, count)
        divisor = b.column(ops.sqrt(divisor) if square else divisor, total)
        none = ops.equal(divisor, zero)
        total = ops.select(none, zero, ops.divide(total, ops.select(none, one, divisor)))
    default = b.given("default_index")
    if default is not None:
        index = b.int64(default)
        row = ops.convert_like(b.gather(table, ops.maximum(index, b.integer(0))), total)
        row = b.where(ops.less(index, b.integer(0)), zero, row)
        empty = ops.equal(b.column(b.counts(segments, count, rows), total), zero)
        total = b.where(empty, row, total)
    return [ops.convert_like(b.wrapped(total, table), table)]


WRITERS: dict[str, Write] = {f"EmbeddingSegments{kind}": _embedding for kind in ("Sum", "Mean", "SqrtN")}
