"""Batches of columns, as data sets of TensorFlow and loaders of torch give them, as columns of all their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_sparse.rows.foreign_rows import SparseParts, plain_column

#: The libraries whose iterables may give batches. A list of arrays in records is more likely a mistake.
LOADERS = ("tensorflow", "torch")


def joined_batches(rows: Any, ranks: Mapping[str, int]) -> Any:
    """Batches as columns; records, tables and columns as they are.

    The rank of its first value tells a batch from a record: the one of a record has no dimension for the rows.

    Args:
        rows: What `foreign_rows.in_memory` returned.
        ranks: The rank of a batch, by column. One of 0 holds no rows.

    Raises:
        ValueError: A batch lacks a column, or a sparse tensor of it is no matrix.
    """
    if not isinstance(rows, Sequence) or not rows or not all(isinstance(batch, Mapping) for batch in rows):
        return rows
    if not any(rank and name in rows[0] and _rank(rows[0][name]) == rank for name, rank in ranks.items()):
        return rows
    names = dict.fromkeys(name for batch in rows for name in batch)
    for number, batch in enumerate(rows):
        if lacking := [name for name in names if name in ranks and name not in batch]:
            raise ValueError(f"batch {number} lacks {lacking[0]!r}")
    return {
        name: _joined(f"column {name!r}", [batch[name] for batch in rows])
        for name in names
        if all(name in batch for batch in rows)
    }


def _rank(value: Any) -> int | None:
    """The number of dimensions of an array, a tensor or nested lists; None if it is not known."""
    if hasattr(value, "dense_shape"):
        return len(value.dense_shape)
    if isinstance(value, np.ndarray) and value.dtype == object and value.size:  # NumPy's form of a ragged tensor
        return value.ndim + (_rank(value.flat[0]) or 0)
    if hasattr(value, "shape"):
        return None if value.shape is None else len(value.shape)
    rank = 0
    while isinstance(value, (list, tuple)):
        rank, value = rank + 1, value[0] if value else None
    return rank


def _joined(where: str, parts: Iterable[Any]) -> Any:
    """The column of the rows of several."""
    columns = [plain_column(where, part) for part in parts]
    first = columns[0]
    if all(isinstance(column, SparseParts) for column in columns):
        return _joined_sparse(where, columns)
    if all(
        isinstance(column, np.ndarray) and (column.dtype, column.shape[1:]) == (first.dtype, first.shape[1:])
        for column in columns
    ):
        return np.concatenate(columns)
    return [row for column in columns for row in (column.to_list() if hasattr(column, "to_list") else column)]


def _joined_sparse(where: str, parts: Sequence[SparseParts]) -> SparseParts:
    """The sparse tensor of the rows of several, as wide as the widest."""
    shapes = np.array([np.asarray(part.dense_shape) for part in parts])
    if shapes.ndim != 2 or shapes.shape[1] != 2:
        raise ValueError(f"{where}: sparse tensors of batches have two dimensions, not {shapes.shape[-1]}")
    begins = np.cumsum(shapes[:, 0]) - shapes[:, 0]
    moved = (np.add(part.indices, [begin, 0]) for part, begin in zip(parts, begins, strict=True))
    values = np.concatenate([np.asarray(part.values) for part in parts])
    return SparseParts(np.concatenate([*moved]), values, [int(shapes[:, 0].sum()), int(shapes[:, 1].max())])
