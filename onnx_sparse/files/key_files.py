"""A table in two files, as several frameworks save it: its keys, and its rows, as little-endian numbers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from onnx_sparse.files.guarded_files import RefusedFileError
from onnx_sparse.files.ranges import FileRange, StoredFile

Array = np.ndarray[Any, Any]
Path = str | os.PathLike[str]


def read_keys(path: Path, dtype: Any, root: Path | None = None) -> Array:
    """The keys in a file, `[n]`, mapped.

    Args:
        path: The file.
        dtype: Their type.
        root: The folder that holds it; None for a file that the caller has named.

    Raises:
        OSError: It cannot be read, or ends within a key.
    """
    stored = StoredFile.of(path, root)
    size = np.dtype(dtype).itemsize
    if stored.size % size:
        raise RefusedFileError(path, f"it has {stored.size} bytes, and a key of type {np.dtype(dtype)} has {size}")
    return _mapped(stored, dtype, (stored.size // size,))


def read_rows(path: Path, dtype: Any, count: int, width: int | None = None, root: Path | None = None) -> Array:
    """The rows of so many keys in a file, `[count, width]`, mapped.

    Args:
        path: The file.
        dtype: The type of its numbers.
        count: The number of rows.
        width: The numbers of each; as many as there are when omitted.
        root: See `read_keys`.

    Raises:
        OSError: It cannot be read, or has other bytes than those of so many rows.
    """
    stored = StoredFile.of(path, root)
    size = np.dtype(dtype).itemsize
    columns = stored.size // (count * size) if width is None and count else width or 0
    if stored.size != count * columns * size:
        rows = f"{count} rows" if width is None else f"{count} rows of {width}"
        raise RefusedFileError(path, f"it has {stored.size} bytes, which are not {rows} of type {np.dtype(dtype)}")
    return _mapped(stored, dtype, (count, columns))


def _mapped(stored: StoredFile, dtype: Any, shape: tuple[int, ...]) -> Array:
    if not stored.size:
        return np.empty(shape, dtype)
    return FileRange(stored, 0, stored.size).mapped(dtype, shape)
