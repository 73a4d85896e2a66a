"""SparseFillEmptyRows, RaggedFillEmptyRows and SparseReshape in numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.requirements import require_allocatable, require_in_range
from onnx_sparse.schemas import sparse
from onnx_sparse.schemas.validation import KernelError


@implements(sparse.SPARSE_FILL_EMPTY_ROWS)
def sparse_fill_empty_rows(
    values: Array, dense_shape: Array, indices: Array, default_value: Array, *, order: str = "row_major"
) -> tuple[Array, Array, Array, Array]:
    """Adds an entry to each empty row; see the semantics of SparseFillEmptyRows."""
    checked = dense_shape if order == "row_major" else dense_shape[:1]
    for column, size in enumerate(checked):
        require_in_range("indices", indices, int(size), column=column)
    empty, missing = _empty_rows(indices[:, 0], int(dense_shape[0]), f"dense_shape[0] = {dense_shape[0]}")
    filled = np.zeros((len(indices) + len(missing), indices.shape[1]), indices.dtype)
    filled[: len(indices)] = indices
    filled[len(indices) :, 0] = missing

    sort = _lexicographic_order(filled, dense_shape) if order == "row_major" else _stable_order(filled[:, 0])
    output_values = _append(values, default_value, len(missing)).take(sort)
    return filled.take(sort, axis=0), output_values, empty, _inverse(sort, len(indices)).astype(indices.dtype)


@implements(sparse.RAGGED_FILL_EMPTY_ROWS)
def ragged_fill_empty_rows(
    value_rowids: Array, values: Array, nrows: Array, default_value: Array
) -> tuple[Array, Array, Array, Array]:
    """Adds a value to each empty row; see the semantics of RaggedFillEmptyRows."""
    require_in_range("value_rowids", value_rowids, int(nrows))
    empty, missing = _empty_rows(value_rowids, int(nrows), f"nrows = {nrows}")
    filled = np.concatenate([value_rowids, missing])
    sort = _stable_order(filled)
    output_values = _append(values, default_value, len(missing)).take(sort)
    return filled.take(sort), output_values, empty, _inverse(sort, len(value_rowids))


@implements(sparse.SPARSE_RESHAPE)
def sparse_reshape(input_indices: Array, input_shape: Array, new_shape: Array) -> tuple[Array, Array]:
    """The coordinates of the same entries in another shape; see the semantics of SparseReshape."""
    before = [int(d) for d in input_shape]
    after = _inferred_shape(before, [int(d) for d in new_shape])
    output_shape = np.array(after, np.int64)
    if before == after:
        return input_indices.copy(), output_shape
    if len(input_indices) and 0 in before:
        raise KernelError(f"input_indices has {len(input_indices)} entries but input_shape {before} is empty")
    linear = np.zeros(len(input_indices), np.int64)
    for column, stride in enumerate(_strides(before)):
        linear += input_indices[:, column] * stride
    output = np.empty((len(input_indices), len(after)), np.int64)
    for column, stride in enumerate(_strides(after) if len(linear) else []):
        # Coordinates are not validated: a negative one is divided as in C, truncating toward zero.
        rest = np.fmod(linear, stride)
        output[:, column] = (linear - rest) // stride
        linear = rest
    return output, output_shape


def _empty_rows(rows: Array, size: int, cause: str) -> tuple[Array, Array]:
    """Which rows have no entry: bool [size], and their numbers."""
    require_allocatable((size,), np.dtype(bool), cause)
    most = int(np.iinfo(rows.dtype).max)
    if len(rows) + size > most and len(rows) - len(np.unique(rows)) + size > most:
        raise KernelError(f"{cause}: the positions of more than {most} output entries do not fit into {rows.dtype}")
    empty = np.ones(size, bool)
    empty[rows] = False
    return empty, np.flatnonzero(empty)


def _append(values: Array, default_value: Array, count: int) -> Array:
    """The values and then `count` times the default."""
    appended = np.empty(len(values) + count, values.dtype)
    appended[: len(values)] = values
    appended[len(values) :] = default_value
    return appended


def _stable_order(keys: Array) -> Array:
    return np.argsort(keys, kind="stable")


def _lexicographic_order(indices: Array, dense_shape: Array) -> Array:
    """The stable permutation that sorts coordinates by all columns."""
    sizes = [max(int(d), 1) for d in dense_shape]
    if math.prod(sizes) >= 2**63:
        return np.lexsort(indices.T[::-1])
    keys = np.zeros(len(indices), np.int64)  # positions in the dense tensor sort as the coordinates do, and faster
    for column, stride in enumerate(_strides(sizes)):
        keys += indices[:, column].astype(np.int64) * stride
    return _stable_order(keys)


def _inverse(sort: Array, count: int) -> Array:
    """The positions after sorting of the first `count` items."""
    inverse: Array = np.empty(len(sort), np.int64)
    inverse[sort] = np.arange(len(sort))
    return inverse[:count]


def _strides(shape: Sequence[int]) -> list[int]:
    """How far apart neighbors along each dimension are in row-major order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _inferred_shape(before: list[int], requested: list[int]) -> list[int]:
    """The requested shape with its -1 replaced.

    Raises:
        KernelError: It has a negative size, two -1, or another number of elements.
    """
    unknown = [axis for axis, size in enumerate(requested) if size == -1]
    for axis, size in enumerate(requested):
        if size < -1:
            raise KernelError(f"new_shape[{axis}] = {size} must be >= -1")
    if len(unknown) > 1:
        raise KernelError(f"new_shape[{unknown[0]}] and new_shape[{unknown[1]}] are both -1; only one may be")
    total = math.prod(before)
    for name, sizes in (("input_shape", before), ("new_shape", [s for s in requested if s != -1])):
        if math.prod(max(s, 1) for s in sizes) >= 2**63:
            raise KernelError(f"{name} = {sizes} has more than 2^63 - 1 elements")
    known: Any = math.prod(size for size in requested if size != -1)
    if unknown and known == 0:
        raise KernelError(f"new_shape = {requested} has a -1 next to a zero, so the -1 cannot be inferred")
    if unknown and total % known:
        raise KernelError(f"new_shape = {requested} does not divide the {total} elements of input_shape = {before}")
    if unknown:
        return [total // known if size == -1 else size for size in requested]
    if known != total:
        raise KernelError(f"new_shape = {requested} has {known} elements but input_shape = {before} has {total}")
    return requested
