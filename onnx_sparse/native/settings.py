"""What the native library has chosen for this machine."""

from __future__ import annotations

import ctypes
import json
from typing import Any


def library_settings(path: str) -> dict[str, Any]:
    """What a native library has chosen for this machine, by its processor and the environment.

    Args:
        path: Of the library.

    Returns:
        `instructions`: the instruction set of the inner loops. `rows_prefetched_ahead`: how many rows ahead looked-up
        rows are prefetched, by their size in bytes. `huge_pages`: whether large tables and outputs are asked for in
        huge pages.

    Raises:
        OSError: The library cannot be loaded.
        AttributeError: It is of an earlier version, which does not say.
    """
    function = ctypes.CDLL(path).OnnxSparseSettings
    function.restype = ctypes.c_char_p
    settings: dict[str, Any] = json.loads(function())
    return settings
