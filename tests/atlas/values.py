"""What an element type ends with, and numbers that kernels take for others."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]


def specials(dtype: np.dtype[Any]) -> dict[str, Any]:
    """The values of a type by what they are called."""
    if dtype == np.bool_:
        return {"true": True, "false": False}
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        found = {"0": 0, "1": 1, "2": 2, "7": 7, "largest": info.max, "least": info.min, "least + 1": info.min + 1}
        if dtype.kind == "i":
            found |= {"-1": -1, "-7": -7}
        if dtype.itemsize == 8:
            found |= {"2^32 - 1": 2**32 - 1, "3e9": 3 * 10**9, "2^53 + 1": 2**53 + 1}
        return found
    info = ml_dtypes.finfo(dtype)
    found = {
        "NaN": np.nan, "inf": np.inf, "-inf": -np.inf, "0": 0.0, "-0": -0.0, "1": 1.0, "-1": -1.0, "0.5": 0.5,
        "2.5": 2.5, "-3.7": -3.7, "20": 20.0, "-20": -20.0, "denormal": float(info.smallest_subnormal) * 3,
        "1e-6": 1e-6, "largest": float(info.max), "lowest": float(info.min),
    }  # fmt: skip
    if float(info.max) > 1e31:
        found |= {"1e8": 1e8, "-1e8": -1e8, "1e30": 1e30, "-1e30": -1e30, "90": 90.0, "-90": -90.0}
    return found


def rows(dtype: np.dtype[Any], width: int = 9) -> dict[str, Array]:
    """Rows of ordinary numbers with a special value in each position, by the value."""
    ordinary = (np.arange(width) % 5 + 1).astype(dtype)
    found = {}
    for name, value in specials(dtype).items():
        rows = np.tile(ordinary, (width, 1))
        rows[np.arange(width), np.arange(width)] = np.array(value).astype(dtype)
        found[name] = rows
    if dtype.kind not in "biu":
        both = np.tile(ordinary, (width, 1))
        both[np.arange(width), np.arange(width)] = np.inf
        both[np.arange(width), np.arange(width)[::-1]] = -np.inf
        found["inf and -inf"] = both
        found["all -inf"] = np.full((2, width), -np.inf, dtype)
    found["equal"] = np.full((2, width), 1, dtype)
    return found
