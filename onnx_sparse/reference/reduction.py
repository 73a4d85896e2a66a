"""Reducing rows by segment, vectorized, in TensorFlow's order.

A segment of n rows is reduced in two parts. Its head, `n % 8` rows (8 for 0, 9 for 1), is reduced one row after
another; the rest are blocks of eight rows, each of which is first reduced by itself. All segments take a step at once,
so the number of numpy calls does not grow with the number of segments. The order is that of TensorFlow's SparseSegment
kernels on CPU, so float results are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ml_dtypes import bfloat16, finfo, iinfo

from onnx_sparse.reference.implementation import Array

#: How many rows a segment's head has, by the number of its rows modulo 8.
_HEAD = np.array([8, 9, 2, 3, 4, 5, 6, 7])

#: How many blocks are reduced at a time: it bounds the memory that they need and keeps them in the cache.
_BLOCKS_AT_ONCE = 1 << 14

#: Gives rows [n, width] for positions [n].
Rows = Callable[[Array], Array]


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 for float16 and bfloat16, the dtype itself otherwise."""
    return np.dtype(np.float32) if dtype in (np.float16, bfloat16) else dtype


def lowest(dtype: np.dtype[Any]) -> Any:
    """The lowest finite value of a dtype, in the dtype that it is computed in."""
    return compute_dtype(dtype).type(_limits(dtype).min)


def highest(dtype: np.dtype[Any]) -> Any:
    """The highest finite value of a dtype, in the dtype that it is computed in."""
    return compute_dtype(dtype).type(_limits(dtype).max)


def negative_infinity(dtype: np.dtype[Any]) -> Any:
    """-inf in the dtype that a dtype is computed in; the lowest value of an integer dtype."""
    return lowest(dtype) if dtype.kind in "iu" else compute_dtype(dtype).type(-np.inf)


def positive_infinity(dtype: np.dtype[Any]) -> Any:
    """+inf in the dtype that a dtype is computed in; the highest value of an integer dtype."""
    return highest(dtype) if dtype.kind in "iu" else compute_dtype(dtype).type(np.inf)


def _limits(dtype: np.dtype[Any]) -> Any:
    limits: Any = iinfo if dtype.kind in "iu" else finfo  # ml_dtypes has no type hints for them
    return limits(dtype)


def row_width(shape: tuple[int, ...]) -> int:
    """How many elements a row of an array of that shape has."""
    return int(np.prod(shape[1:], dtype=np.int64))


def divide_by_counts(total: Array, counts: Array) -> Array:
    """Rows [segments, width] divided by counts [segments], where 0 counts as 1; integers divide toward zero."""
    divisor = np.maximum(counts, 1)[:, None]
    if total.dtype.kind not in "iu":
        quotient: Array = total / divisor.astype(total.dtype)
        return quotient
    # A count may exceed the dtype's range; // rounds down.
    wide = total.astype(np.uint64 if total.dtype == np.uint64 else np.int64)
    divisor = divisor.astype(wide.dtype)
    return (wide - np.fmod(wide, divisor)) // divisor


def reduce_segments(reduce: np.ufunc, rows: Rows, counts: Array, width: int, dtype: np.dtype[Any]) -> Array:
    """Reduce rows that are sorted by segment.

    Args:
        reduce: add, multiply, maximum or minimum.
        rows: Gives the rows at positions, in `dtype`.
        counts: int64 [segments], how many rows each segment has.
        width: The number of elements of a row.
        dtype: The dtype to compute in.

    Returns:
        [segments, width]; an empty segment is 0.
    """
    result = np.zeros((len(counts), width), dtype)
    starts = np.cumsum(counts) - counts
    head = np.minimum(_HEAD[counts & 7], counts)

    at = np.flatnonzero(counts)
    result[at] = rows(starts[at])
    for step in range(1, 9):
        at = at[head[at] > step]
        if not at.size:
            break
        result[at] = reduce(result[at], rows(starts[at] + step))

    blocks = (counts - head) >> 3
    segment = np.repeat(np.arange(len(counts)), blocks)
    first_block = np.cumsum(blocks) - blocks
    position = np.repeat(starts + head - 8 * first_block, blocks) + 8 * np.arange(len(segment))
    for chunk in range(0, len(segment), _BLOCKS_AT_ONCE):
        here = slice(chunk, chunk + _BLOCKS_AT_ONCE)
        _take_blocks(reduce, rows, result, segment[here], position[here])
    return result


def _take_blocks(reduce: np.ufunc, rows: Rows, result: Array, segment: Array, position: Array) -> None:
    block = rows(position)
    for step in range(1, 8):
        reduce(block, rows(position + step), out=block)
    # `at` is fast only on flat arrays.
    width = result.shape[1]
    elements = segment[:, None] * width + np.arange(width)
    reduce.at(result.reshape(-1), elements.reshape(-1), block.reshape(-1))
