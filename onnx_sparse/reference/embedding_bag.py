"""EmbeddingBagOffsetsSum, -Mean, -SqrtN and -Max in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_sparse.reference.embedding import Entries, require_row
from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.requirements import (
    require_allocatable,
    require_in_range,
    require_offsets,
    require_row_splits,
)
from onnx_sparse.schemas import embedding_bag


@implements(embedding_bag.EMBEDDING_BAG_OFFSETS_SUM)
def embedding_bag_offsets_sum(*inputs: Any, **attributes: Any) -> Array:
    """Weighted sums of looked-up rows; see the semantics of EmbeddingBagOffsetsSum."""
    return bag_entries(*inputs, **attributes).sums()


@implements(embedding_bag.EMBEDDING_BAG_OFFSETS_MEAN)
def embedding_bag_offsets_mean(*inputs: Any, **attributes: Any) -> Array:
    """Weighted averages of looked-up rows; see the semantics of EmbeddingBagOffsetsMean."""
    return bag_entries(*inputs, **attributes).means()


@implements(embedding_bag.EMBEDDING_BAG_OFFSETS_SQRT_N)
def embedding_bag_offsets_sqrt_n(*inputs: Any, **attributes: Any) -> Array:
    """Sums of looked-up rows over the root of the summed squared weights; see EmbeddingBagOffsetsSqrtN's semantics."""
    return bag_entries(*inputs, **attributes).scaled_sums()


@implements(embedding_bag.EMBEDDING_BAG_OFFSETS_MAX)
def embedding_bag_offsets_max(
    emb_table: Array,
    indices: Array,
    offsets: Array,
    default_index: Array | None = None,
    padding_index: Array | None = None,
    *,
    include_last_offset: str = "false",
    negative_indices: str = "error",
) -> Array:
    """Maxima of looked-up rows; see the semantics of EmbeddingBagOffsetsMax."""
    return bag_entries(
        emb_table,
        indices,
        offsets,
        default_index,
        None,
        padding_index,
        include_last_offset=include_last_offset,
        negative_indices=negative_indices,
    ).maxima()


def bag_entries(
    emb_table: Array,
    indices: Array,
    offsets: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
    padding_index: Array | None = None,
    *,
    include_last_offset: str = "false",
    negative_indices: str = "error",
) -> Entries:
    """The entries of a lookup by bag, without those that are left out.

    Raises:
        KernelError: An input breaks the semantics.
    """
    if include_last_offset == "exact":
        require_row_splits("offsets", offsets, len(indices))
    else:
        require_offsets("offsets", offsets, len(indices))
    ends = offsets.astype(np.int64)
    if include_last_offset == "false":
        ends = np.append(ends, len(indices))
    bags = len(ends) - 1
    require_allocatable((bags, *emb_table.shape[1:]), emb_table.dtype, f"offsets of shape [{len(offsets)}]")
    require_row("default_index", default_index, emb_table)
    require_row("padding_index", padding_index, emb_table)
    kept = indices[: ends[-1] if bags else 0]
    looked_up = np.ones(len(kept), bool) if negative_indices == "error" else kept >= 0
    require_in_range("indices", kept, len(emb_table), where=looked_up)
    if padding_index is not None:
        looked_up &= kept != padding_index
    if looked_up.all():
        return Entries(emb_table, kept, np.diff(ends), default_index, per_sample_weights)
    weights = None if per_sample_weights is None else per_sample_weights[: len(kept)][looked_up]
    before = np.append(0, np.cumsum(looked_up))
    counts = np.diff(before[ends]) if bags else np.diff(ends)
    return Entries(emb_table, kept[looked_up], counts, default_index, weights)
