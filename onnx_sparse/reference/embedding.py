"""EmbeddingSegmentsSum, EmbeddingSegmentsMean, EmbeddingSegmentsSqrtN in numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.reduction import compute_dtype, reduce_segments, row_width
from onnx_sparse.reference.requirements import require_in_range
from onnx_sparse.reference.segment import count_sorted
from onnx_sparse.schemas import embedding


@implements(embedding.EMBEDDING_SEGMENTS_SUM)
def embedding_segments_sum(
    emb_table: Array,
    indices: Array,
    segment_ids: Array,
    num_segments: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
    *,
    segment_ids_order: str = "sorted",
) -> Array:
    """Weighted sums of looked-up rows; see the semantics of EmbeddingSegmentsSum."""
    bags = _look_up(emb_table, indices, segment_ids, num_segments, default_index, per_sample_weights, segment_ids_order)
    return _finish(bags.total, bags, emb_table, default_index)


@implements(embedding.EMBEDDING_SEGMENTS_MEAN)
def embedding_segments_mean(
    emb_table: Array,
    indices: Array,
    segment_ids: Array,
    num_segments: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
    *,
    segment_ids_order: str = "sorted",
) -> Array:
    """Weighted averages of looked-up rows; see the semantics of EmbeddingSegmentsMean."""
    bags = _look_up(emb_table, indices, segment_ids, num_segments, default_index, per_sample_weights, segment_ids_order)
    if bags.weights is None:
        mean = _divide_by_count(bags.total, bags.counts, bags.counts.astype(np.float64))
    else:
        mean = _divide(bags.total, _sum_weights(bags.weights, bags.counts))
    return _finish(mean, bags, emb_table, default_index)


@implements(embedding.EMBEDDING_SEGMENTS_SQRT_N)
def embedding_segments_sqrt_n(
    emb_table: Array,
    indices: Array,
    segment_ids: Array,
    num_segments: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
    *,
    segment_ids_order: str = "sorted",
) -> Array:
    """Sums of looked-up rows over the root of the summed squared weights; see EmbeddingSegmentsSqrtN's semantics."""
    bags = _look_up(emb_table, indices, segment_ids, num_segments, default_index, per_sample_weights, segment_ids_order)
    if bags.weights is None:
        scaled = _divide_by_count(bags.total, bags.counts, np.sqrt(bags.counts.astype(np.float64)))
    else:
        scaled = _divide(bags.total, np.sqrt(_sum_weights(np.square(bags.weights), bags.counts)))
    return _finish(scaled, bags, emb_table, default_index)


@dataclass(frozen=True)
class _Bags:
    """The sums [segments, width] in the compute dtype, the sizes of the segments, the weights in that dtype."""

    total: Array
    counts: Array
    weights: Array | None


def _look_up(
    emb_table: Array,
    indices: Array,
    segment_ids: Array,
    num_segments: Array,
    default_index: Array | None,
    per_sample_weights: Array | None,
    segment_ids_order: str,
) -> _Bags:
    order: Array | slice = slice(None)
    if segment_ids_order == "any":
        require_in_range("segment_ids", segment_ids, int(num_segments))
        order = np.argsort(segment_ids, kind="stable")
    counts = count_sorted(segment_ids[order], num_segments, emb_table)
    if default_index is not None:
        require_in_range("default_index", default_index, len(emb_table), low=-1)
    kept = indices[: counts.sum()]
    require_in_range("indices", kept, len(emb_table))
    kept = kept[order]
    width = row_width(emb_table.shape)
    table = emb_table.reshape(len(emb_table), width)
    dtype = compute_dtype(emb_table.dtype)
    weights = None if per_sample_weights is None else per_sample_weights[order].astype(dtype, copy=False)

    def rows(at: Array) -> Array:
        looked_up = table.take(kept[at], axis=0).astype(dtype, copy=False)
        return looked_up if weights is None else np.multiply(looked_up, weights[at, None], out=looked_up)

    return _Bags(reduce_segments(np.add, rows, counts, width, dtype), counts, weights)


def _sum_weights(weights: Array, counts: Array) -> Array:
    """The sum of the weights of each segment, [segments, 1]."""
    return reduce_segments(np.add, lambda at: weights[at, None], counts, 1, weights.dtype)


def _divide(total: Array, divisor: Array) -> Array:
    """total / divisor, 0 where the divisor is 0."""
    return np.where(divisor == 0, total.dtype.type(0), total / divisor)


def _divide_by_count(total: Array, counts: Array, divisor: Array) -> Array:
    """total / divisor, bit-identical to TensorFlow: a short segment is multiplied by the rounded reciprocal."""
    one = total.dtype.type(1)
    divisor = np.where(counts == 0, 1, divisor).astype(total.dtype)
    short = counts < 10
    factor = np.where(short, one / divisor, one)
    scaled: Array = total * factor[:, None] / np.where(short, one, divisor)[:, None]
    return scaled


def _finish(rows: Array, bags: _Bags, emb_table: Array, default_index: Array | None) -> Array:
    """Round to the table's dtype and put the default row into empty segments."""
    output = rows.astype(emb_table.dtype, copy=False).reshape(len(rows), *emb_table.shape[1:])
    if default_index is not None:
        output[bags.counts == 0] = emb_table[int(default_index)]
    return output
