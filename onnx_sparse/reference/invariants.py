"""ValidateSparseIndices and ValidateRowSplits in numpy."""

from __future__ import annotations

import numpy as np

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.requirements import require_in_range, require_row_splits
from onnx_sparse.schemas import invariants as declarations
from onnx_sparse.schemas.validation import KernelError


@implements(declarations.VALIDATE_SPARSE_INDICES)
def validate_sparse_indices(indices: Array, dense_shape: Array, *, order: str = "any") -> Array:
    """The coordinates, if they are legal; see the semantics of ValidateSparseIndices."""
    for column, size in enumerate(dense_shape):
        require_in_range("indices", indices, int(size), column=column)
    if order == "row_major":
        _require_row_major("indices", indices)
    return indices.copy()


@implements(declarations.VALIDATE_ROW_SPLITS)
def validate_row_splits(row_splits: Array, num_values: Array) -> Array:
    """The row splits, if they are legal; see the semantics of ValidateRowSplits."""
    require_row_splits("row_splits", row_splits, int(num_values))
    return row_splits.copy()


def _require_row_major(name: str, indices: Array) -> None:
    """Each entry [R] of [N, R] is after the one before, in row-major order.

    Raises:
        KernelError: The first entry that is not.
    """
    rises, ties = np.zeros(max(len(indices) - 1, 0), bool), np.ones(max(len(indices) - 1, 0), bool)
    for column in indices.T:
        rises |= ties & (column[1:] > column[:-1])
        ties &= column[1:] == column[:-1]
    for k in np.flatnonzero(~rises)[:1] + 1:
        entry, before = (f"{name}[{j}] = {indices[j].tolist()}" for j in (k, k - 1))
        raise KernelError(f"{entry} is not after {before}; entries must be in row-major order, none of them twice")
