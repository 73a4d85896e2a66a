"""Arrays that are too large for memory: in temporary files that go away with them."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

#: Smaller arrays are in memory.
LEAST = 1 << 24

#: How many bytes of such an array are used at a time.
_BLOCK = 1 << 23


class NoRoomError(OSError):
    """There is no room for an array in the folder for temporary files."""


def row_ranges(array: np.ndarray[Any, Any]) -> Iterator[slice]:
    """The rows of an array, in parts that fit into memory."""
    count = max(1, _BLOCK // (array[:1].nbytes or 1))
    for first in range(0, len(array), count):
        yield slice(first, min(first + count, len(array)))


def empty_array(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An array that is yet to be filled; a large one is in the folder for temporary files.

    Raises:
        NoRoomError: The disk is full.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < LEAST or not hasattr(os, "posix_fallocate"):
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile() as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)  # or writing to the array would end the process on a full disk
        except OSError as error:
            reason = f"no room for a table of {size} bytes in this folder; TMPDIR can name another ({error.strerror})"
            raise NoRoomError(error.errno, reason, tempfile.gettempdir()) from error
        return np.memmap(file, dtype, "r+", shape=shape)
