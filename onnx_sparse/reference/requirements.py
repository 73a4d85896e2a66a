"""What the semantics require of values; each error names the input, the position and the illegal value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_sparse.reference.implementation import Array
from onnx_sparse.schemas.validation import KernelError

#: The most bytes that any address space holds.
_MOST_BYTES = 2**63 - 1


def require_in_range(
    name: str, values: Array, high: int, low: int = 0, *, column: int | None = None, where: Array | None = None
) -> None:
    """Every value, or every one in a column of a matrix or `where` it counts, is in [low, high).

    Raises:
        KernelError: The first value that is not.
    """
    checked = values if column is None else values[:, column]
    if checked.size and (checked.min() < low or checked.max() >= high):
        wrong = (checked < low) | (checked >= high)
        if where is not None:
            wrong &= where
        if not wrong.any():
            return
        at = _first(wrong)
        at = at if column is None else (*at, column)
        raise KernelError(f"{element_name(name, at)} = {values[at]} is out of range [{low}, {high})")


def require_sorted(name: str, ids: Array, *, where: Array | None = None) -> None:
    """The ids or offsets [K], or those `where` it counts, are non-negative and do not decrease.

    Raises:
        KernelError: The first id that is negative or less than the one before.
    """
    checked = ids if where is None else ids[where]
    if not checked.size:
        return
    falls = checked[1:] < checked[:-1]
    if checked[0] < 0 or falls.any():
        k = 0 if checked[0] < 0 else int(falls.argmax()) + 1
        at = np.arange(len(ids)) if where is None else np.flatnonzero(where)
        wrong = f"{name}[{at[k]}] = {checked[k]}"
        if checked[k] < 0:
            raise KernelError(f"{wrong} must be >= 0")
        kind = name.rpartition("_")[2]
        raise KernelError(f"{wrong} is less than {name}[{at[k - 1]}] = {checked[k - 1]}; {kind} must be sorted")


def require_offsets(name: str, offsets: Array, count: int) -> None:
    """The offsets [B] into `count` entries begin with 0, do not decrease and are not greater than `count`.

    Raises:
        KernelError: The first offset that breaks one of these.
    """
    require_sorted(name, offsets)
    if offsets.size and offsets[0] != 0:
        raise KernelError(f"{name}[0] = {offsets[0]} must be 0")
    require_in_range(name, offsets, count + 1)


def require_row_splits(name: str, splits: Array, size: int) -> None:
    """The splits begin with 0, do not decrease and end with the number of values, `size`.

    Raises:
        KernelError: The first split that breaks one of these.
    """
    if not len(splits):
        raise KernelError(f"{name} has 0 elements; at least 1 expected")
    if splits[0] != 0:
        raise KernelError(f"{name}[0] = {splits[0]} must be 0")
    for k in np.flatnonzero(splits[1:] < splits[:-1])[:1] + 1:
        raise KernelError(f"{name}[{k}] = {splits[k]} is less than {name}[{k - 1}] = {splits[k - 1]}")
    if splits[-1] != size:
        raise KernelError(f"{name}[{len(splits) - 1}] = {splits[-1]} must be {size}, the number of values")


def require_allocatable(shape: Sequence[int], dtype: np.dtype[Any], cause: str) -> None:
    """An array of that shape can be allocated.

    Args:
        shape: The shape of the output.
        dtype: Its dtype.
        cause: What asks for the size, for the message: `num_segments = 4611686018427387904`.

    Raises:
        KernelError: It cannot.
    """
    size = dtype.itemsize
    for dim in shape:
        size *= max(int(dim), 1)
    try:
        if size > _MOST_BYTES:
            raise MemoryError
        np.empty(tuple(int(d) for d in shape), dtype)
    except (MemoryError, ValueError):
        raise KernelError(f"{cause}: an output of shape {[int(d) for d in shape]} cannot be allocated") from None


def _first(condition: Array) -> tuple[int, ...]:
    """The first position where a condition holds."""
    return tuple(int(i) for i in np.unravel_index(int(condition.argmax()), condition.shape))


def element_name(name: str, position: tuple[int, ...]) -> str:
    """An element as messages write it: `indices[3,0]`."""
    return f"{name}[{','.join(map(str, position))}]" if position else name
