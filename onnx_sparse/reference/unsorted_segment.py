"""UnsortedSegmentSum, -Mean, -Max, -Min and -Prod in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.reduction import (
    compute_dtype,
    divide_by_counts,
    highest,
    lowest,
    negative_infinity,
    positive_infinity,
    reduce_segments,
    row_width,
)
from onnx_sparse.reference.requirements import require_allocatable, require_in_range
from onnx_sparse.schemas import unsorted_segment


@implements(unsorted_segment.UNSORTED_SEGMENT_SUM)
def unsorted_segment_sum(data: Array, segment_ids: Array, num_segments: Array) -> Array:
    """Sums by ids in any order; see the semantics of UnsortedSegmentSum."""
    return _reduce(np.add, data, segment_ids, num_segments, 0)


@implements(unsorted_segment.UNSORTED_SEGMENT_MEAN)
def unsorted_segment_mean(data: Array, segment_ids: Array, num_segments: Array) -> Array:
    """Averages by ids in any order; see the semantics of UnsortedSegmentMean."""
    return _reduce(np.add, data, segment_ids, num_segments, 0, finalize=divide_by_counts)


@implements(unsorted_segment.UNSORTED_SEGMENT_PROD)
def unsorted_segment_prod(data: Array, segment_ids: Array, num_segments: Array) -> Array:
    """Products by ids in any order; see the semantics of UnsortedSegmentProd."""
    return _reduce(np.multiply, data, segment_ids, num_segments, 1)


@implements(unsorted_segment.UNSORTED_SEGMENT_MAX)
def unsorted_segment_max(data: Array, segment_ids: Array, num_segments: Array, *, initial: str = "LOWEST") -> Array:
    """Maxima by ids in any order; see the semantics of UnsortedSegmentMax."""
    start = lowest(data.dtype) if initial == "LOWEST" else negative_infinity(data.dtype)
    return _reduce(np.maximum, data, segment_ids, num_segments, start)


@implements(unsorted_segment.UNSORTED_SEGMENT_MIN)
def unsorted_segment_min(data: Array, segment_ids: Array, num_segments: Array, *, initial: str = "HIGHEST") -> Array:
    """Minima by ids in any order; see the semantics of UnsortedSegmentMin."""
    start = highest(data.dtype) if initial == "HIGHEST" else positive_infinity(data.dtype)
    return _reduce(np.minimum, data, segment_ids, num_segments, start)


def _reduce(
    reduce: np.ufunc,
    data: Array,
    segment_ids: Array,
    num_segments: Array,
    initial: Any,
    finalize: Callable[[Array, Array], Array] | None = None,
) -> Array:
    """Reduce the slices of each segment, starting from `initial`; `finalize` gets the result and the counts."""
    size = int(num_segments)
    slice_shape = data.shape[segment_ids.ndim :]
    require_in_range("segment_ids", segment_ids, size, low=np.iinfo(segment_ids.dtype).min)
    require_allocatable((size, *slice_shape), data.dtype, f"num_segments = {size}")

    ids = segment_ids.reshape(-1)
    kept = np.flatnonzero(ids >= 0)
    order = kept[np.argsort(ids[kept], kind="stable")]
    width = row_width((1, *slice_shape))
    flat = data.reshape(ids.size, width)
    dtype = compute_dtype(data.dtype)

    counts = np.bincount(ids[kept], minlength=size)
    rows = reduce_segments(
        reduce, lambda at: flat.take(order[at], axis=0).astype(dtype, copy=False), counts, width, dtype
    )
    rows[counts == 0] = initial
    reduce(rows, dtype.type(initial), out=rows)
    if finalize is not None:
        rows = finalize(rows, counts)
    return rows.astype(data.dtype, copy=False).reshape(size, *slice_shape)
