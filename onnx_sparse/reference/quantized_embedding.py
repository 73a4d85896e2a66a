"""QuantizedEmbeddingSegments* and QuantizedEmbeddingBagOffsets* in numpy: lookups in a float32 table of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_sparse.reference.embedding import Entries, segment_entries
from onnx_sparse.reference.embedding_bag import bag_entries
from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.schemas import quantized_embedding
from onnx_sparse.schemas.validation import KernelError


@implements(quantized_embedding.QUANTIZED_EMBEDDING_SEGMENTS_SUM)
def quantized_embedding_segments_sum(*inputs: Any, **attributes: Any) -> Array:
    """Weighted sums of looked-up rows; see the semantics of QuantizedEmbeddingSegmentsSum."""
    return _reduced(segment_entries, Entries.sums, *inputs, **attributes)


@implements(quantized_embedding.QUANTIZED_EMBEDDING_SEGMENTS_MEAN)
def quantized_embedding_segments_mean(*inputs: Any, **attributes: Any) -> Array:
    """Weighted averages of looked-up rows; see the semantics of QuantizedEmbeddingSegmentsMean."""
    return _reduced(segment_entries, Entries.means, *inputs, **attributes)


@implements(quantized_embedding.QUANTIZED_EMBEDDING_SEGMENTS_SQRT_N)
def quantized_embedding_segments_sqrt_n(*inputs: Any, **attributes: Any) -> Array:
    """Scaled sums of looked-up rows; see the semantics of QuantizedEmbeddingSegmentsSqrtN."""
    return _reduced(segment_entries, Entries.scaled_sums, *inputs, **attributes)


@implements(quantized_embedding.QUANTIZED_EMBEDDING_BAG_OFFSETS_SUM)
def quantized_embedding_bag_offsets_sum(*inputs: Any, **attributes: Any) -> Array:
    """Weighted sums of looked-up rows; see the semantics of QuantizedEmbeddingBagOffsetsSum."""
    return _reduced(bag_entries, Entries.sums, *inputs, **attributes)


@implements(quantized_embedding.QUANTIZED_EMBEDDING_BAG_OFFSETS_MEAN)
def quantized_embedding_bag_offsets_mean(*inputs: Any, **attributes: Any) -> Array:
    """Weighted averages of looked-up rows; see the semantics of QuantizedEmbeddingBagOffsetsMean."""
    return _reduced(bag_entries, Entries.means, *inputs, **attributes)


@implements(quantized_embedding.QUANTIZED_EMBEDDING_BAG_OFFSETS_SQRT_N)
def quantized_embedding_bag_offsets_sqrt_n(*inputs: Any, **attributes: Any) -> Array:
    """Scaled sums of looked-up rows; see the semantics of QuantizedEmbeddingBagOffsetsSqrtN."""
    return _reduced(bag_entries, Entries.scaled_sums, *inputs, **attributes)


def _reduced(
    entries_of: Callable[..., Entries],
    reduce: Callable[[Entries], Array],
    emb_table: Array,
    scale_bias: Array,
    *inputs: Any,
    bits: str = "8",
    **attributes: Any,
) -> Array:
    """The looked-up rows, reduced by segment or bag in float32 and rounded once."""
    table = QuantizedTable(emb_table, scale_bias, bits)
    entries = entries_of(table.output_rows(), *inputs, **attributes)
    return reduce(table.dequantized(entries)).astype(scale_bias.dtype)


class QuantizedTable:
    """A table of integers [V, E] with the scales and biases of its blocks [V, G, A].

    Raises:
        KernelError: G does not divide E, or A is neither 1 nor 2.
    """

    def __init__(self, emb_table: Array, scale_bias: Array, bits: str) -> None:
        columns, (blocks, numbers) = emb_table.shape[1], scale_bias.shape[1:]
        if numbers not in (1, 2):
            raise KernelError(f"scale_bias has {numbers} numbers for each block; expected 1 or 2")
        if blocks == 0 or columns % blocks:
            raise KernelError(f"scale_bias has {blocks} blocks, which do not divide the {columns} columns of emb_table")
        self.emb_table = emb_table
        self.scale_bias = scale_bias
        self.bits = bits

    def output_rows(self) -> Array:
        """An array with one row for each of the table's, in the width and the dtype of the output's; all zeros."""
        width = self.emb_table.shape[1] * (2 if self.bits == "4" else 1)
        return np.broadcast_to(self.scale_bias.dtype.type(0), (len(self.emb_table), width))

    def dequantized(self, entries: Entries) -> Entries:
        """The same lookup in a float32 table of its own rows."""
        indices = entries.indices.astype(np.int64)
        default = None
        if entries.default_index is not None:
            default = np.array(len(indices))
            indices = np.append(indices, entries.default_index)
        weights = entries.per_sample_weights
        return Entries(
            self.rows(indices),
            np.arange(len(entries.indices)),
            entries.counts,
            default,
            None if weights is None else weights.astype(np.float32),
        )

    def rows(self, indices: Array) -> Array:
        """The rows of indices [k] in float32, [k, width]."""
        integers = self.emb_table[indices]
        if self.bits == "4":
            high = integers >> 4
            low = (integers << 4) >> 4  # the shift back keeps the sign of int8
            integers = np.stack([low, high], axis=-1).reshape(len(indices), 2 * integers.shape[1])
        numbers = self.scale_bias[indices].astype(np.float32)
        blocks = numbers.shape[1]
        rows = integers.reshape(len(indices), blocks, integers.shape[1] // blocks).astype(np.float32)
        rows *= numbers[:, :, :1]
        if numbers.shape[2] == 2:
            rows += numbers[:, :, 1:]
        return rows.reshape(integers.shape)
