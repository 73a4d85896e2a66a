"""SegmentSum, SegmentMean, SegmentMax, SegmentMin, SegmentProd in numpy."""

from __future__ import annotations

import numpy as np

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.reduction import (
    compute_dtype,
    divide_by_counts,
    highest,
    lowest,
    reduce_segments,
    row_width,
)
from onnx_sparse.reference.requirements import require_allocatable, require_sorted
from onnx_sparse.schemas import segment
from onnx_sparse.schemas.validation import KernelError


@implements(segment.SEGMENT_SUM)
def segment_sum(data: Array, segment_ids: Array, num_segments: Array | None = None) -> Array:
    """Sums of the rows of each segment; see the semantics of SegmentSum."""
    total, _ = _reduce(np.add, data, segment_ids, num_segments)
    return _finish(total, data)


@implements(segment.SEGMENT_PROD)
def segment_prod(data: Array, segment_ids: Array, num_segments: Array | None = None) -> Array:
    """Products of the rows of each segment; see the semantics of SegmentProd."""
    product, counts = _reduce(np.multiply, data, segment_ids, num_segments)
    product[counts == 0] = 1
    return _finish(product, data)


@implements(segment.SEGMENT_MEAN)
def segment_mean(data: Array, segment_ids: Array, num_segments: Array | None = None) -> Array:
    """Averages of the rows of each segment; see the semantics of SegmentMean."""
    total, counts = _reduce(np.add, data, segment_ids, num_segments)
    return _finish(divide_by_counts(total, counts), data)


@implements(segment.SEGMENT_MAX)
def segment_max(data: Array, segment_ids: Array, num_segments: Array | None = None, *, fill_mode: str) -> Array:
    """Maxima of the rows of each segment; see the semantics of SegmentMax."""
    maximum, counts = _reduce(np.maximum, data, segment_ids, num_segments)
    maximum[counts == 0] = lowest(data.dtype) if fill_mode == "LOWEST" else 0
    return _finish(maximum, data)


@implements(segment.SEGMENT_MIN)
def segment_min(data: Array, segment_ids: Array, num_segments: Array | None = None, *, fill_mode: str) -> Array:
    """Minima of the rows of each segment; see the semantics of SegmentMin."""
    minimum, counts = _reduce(np.minimum, data, segment_ids, num_segments)
    minimum[counts == 0] = highest(data.dtype) if fill_mode == "HIGHEST" else 0
    return _finish(minimum, data)


def _reduce(reduce: np.ufunc, data: Array, segment_ids: Array, num_segments: Array | None) -> tuple[Array, Array]:
    """The reduced rows [segments, width], and how many rows each segment has."""
    counts = count_sorted(segment_ids, num_segments, data)
    width = row_width(data.shape)
    flat = data.reshape(len(data), width)
    dtype = compute_dtype(data.dtype)
    return reduce_segments(
        reduce, lambda at: flat.take(at, axis=0).astype(dtype, copy=False), counts, width, dtype
    ), counts


def count_sorted(segment_ids: Array, num_segments: Array | None, row_source: Array) -> Array:
    """How many rows each segment has, int64 [segments]; segments at or beyond num_segments are dropped.

    `row_source` is an array [n, ...] whose rows have the shape and the dtype of the output's rows.

    Raises:
        KernelError: The ids are not sorted or negative, or the output cannot be allocated.
    """
    require_sorted("segment_ids", segment_ids)
    if num_segments is None:
        size = int(segment_ids[-1]) + 1 if segment_ids.size else 0
        cause = f"segment_ids[{len(segment_ids) - 1}] = {size - 1}"
        if size == 2**63:
            raise KernelError(f"{cause}: an output of more than 2^63 - 1 segments cannot be allocated")
    else:
        size = int(num_segments)
        cause = f"num_segments = {size}"
    require_allocatable((size, *row_source.shape[1:]), row_source.dtype, cause)
    kept = segment_ids[: np.searchsorted(segment_ids, size)] if size <= np.iinfo(segment_ids.dtype).max else segment_ids
    return np.bincount(kept, minlength=size)


def _finish(rows: Array, data: Array) -> Array:
    return rows.astype(data.dtype, copy=False).reshape(len(rows), *data.shape[1:])
