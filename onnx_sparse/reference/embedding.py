"""EmbeddingSegmentsSum, EmbeddingSegmentsMean, EmbeddingSegmentsSqrtN in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.reduction import compute_dtype, reduce_segments, row_width
from onnx_sparse.reference.requirements import require_in_range, require_sorted
from onnx_sparse.reference.segment import count_sorted
from onnx_sparse.schemas import embedding


@implements(embedding.EMBEDDING_SEGMENTS_SUM)
def embedding_segments_sum(*inputs: Any, **attributes: Any) -> Array:
    """Weighted sums of looked-up rows; see the semantics of EmbeddingSegmentsSum."""
    return segment_entries(*inputs, **attributes).sums()


@implements(embedding.EMBEDDING_SEGMENTS_MEAN)
def embedding_segments_mean(*inputs: Any, **attributes: Any) -> Array:
    """Weighted averages of looked-up rows; see the semantics of EmbeddingSegmentsMean."""
    return segment_entries(*inputs, **attributes).means()


@implements(embedding.EMBEDDING_SEGMENTS_SQRT_N)
def embedding_segments_sqrt_n(*inputs: Any, **attributes: Any) -> Array:
    """Sums of looked-up rows over the root of the summed squared weights; see EmbeddingSegmentsSqrtN's semantics."""
    return segment_entries(*inputs, **attributes).scaled_sums()


def segment_entries(
    emb_table: Array,
    indices: Array,
    segment_ids: Array,
    num_segments: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
    *,
    segment_ids_order: str = "sorted",
    negative_indices: str = "error",
) -> Entries:
    """The entries of a lookup by segment, in the order of the segments, without those that are left out.

    Raises:
        KernelError: An input breaks the semantics.
    """
    looked_up = indices >= 0 if negative_indices == "drop" else None
    at = None if looked_up is None or looked_up.all() else np.flatnonzero(looked_up)
    if segment_ids_order == "any":
        require_in_range("segment_ids", segment_ids, int(num_segments), where=looked_up)
        order = np.argsort(segment_ids if at is None else segment_ids[at], kind="stable")
        at = order if at is None else at[order]
    elif at is not None:  # else they are checked as they are counted
        require_sorted("segment_ids", segment_ids, where=looked_up)
    kept = slice(None) if at is None else at
    counts = count_sorted(segment_ids[kept], num_segments, emb_table)
    require_row("default_index", default_index, emb_table)
    used = segment_ids < num_segments
    require_in_range("indices", indices, len(emb_table), where=used if looked_up is None else used & looked_up)
    weights = None if per_sample_weights is None else per_sample_weights[kept]
    return Entries(emb_table, indices[kept][: counts.sum()], counts, default_index, weights)


def require_row(name: str, index: Array | None, emb_table: Array) -> None:
    """An optional index is that of a row of the table, or -1.

    Raises:
        KernelError: It is not.
    """
    if index is not None:
        require_in_range(name, index, len(emb_table), low=-1)


@dataclass(frozen=True)
class Entries:
    """Looked-up rows of a table and their reductions by bag (or segment).

    Attributes:
        emb_table: The table [V, ...].
        indices: The row of each entry [K], bag by bag.
        counts: int64 [bags], how many entries each bag has.
        default_index: The row that fills an empty bag; none means zeros.
        per_sample_weights: The weight of each entry, and perhaps others after them; none means ones.
    """

    emb_table: Array
    indices: Array
    counts: Array
    default_index: Array | None
    per_sample_weights: Array | None = None

    def sums(self) -> Array:
        """The (weighted) sums."""
        return self._filled(self._reduced(np.add))

    def means(self) -> Array:
        """The sums divided by those of the weights."""
        weights, total = self.weights(), self._reduced(np.add)
        if weights is None:
            return self._filled(_divide_by_count(total, self.counts, self.counts.astype(np.float64)))
        return self._filled(_divide(total, self.sums_of(weights)))

    def scaled_sums(self) -> Array:
        """The sums divided by the roots of the sums of the squared weights."""
        weights, total = self.weights(), self._reduced(np.add)
        if weights is None:
            return self._filled(_divide_by_count(total, self.counts, np.sqrt(self.counts.astype(np.float64))))
        return self._filled(_divide(total, np.sqrt(self.sums_of(np.square(weights)))))

    def maxima(self) -> Array:
        """The greatest element of each column."""
        return self._filled(self._reduced(np.maximum))

    def weights(self) -> Array | None:
        """The weights in the dtype to compute in."""
        weights = self.per_sample_weights
        return None if weights is None else weights.astype(compute_dtype(weights.dtype), copy=False)

    def _reduced(self, reduce: np.ufunc) -> Array:
        """The reduced rows [bags, width] in the dtype to compute in; an empty bag is 0."""
        width = row_width(self.emb_table.shape)
        table = self.emb_table.reshape(len(self.emb_table), width)
        dtype = compute_dtype(table.dtype)
        weights = self.weights()

        def rows(at: Array) -> Array:
            looked_up = table.take(self.indices[at], axis=0).astype(dtype, copy=False)
            return looked_up if weights is None else np.multiply(looked_up, weights[at, None], out=looked_up)

        return reduce_segments(reduce, rows, self.counts, width, dtype)

    def sums_of(self, weights: Array) -> Array:
        """The sum of the weights of each bag, [bags, 1]."""
        return reduce_segments(np.add, lambda at: weights[at, None], self.counts, 1, weights.dtype)

    def _filled(self, rows: Array) -> Array:
        """Round to the table's dtype and put the default row into empty bags."""
        table = self.emb_table
        output = rows.astype(table.dtype, copy=False).reshape(len(rows), *table.shape[1:])
        if self.default_index is not None:
            output[self.counts == 0] = table[int(self.default_index)]
        return output


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
