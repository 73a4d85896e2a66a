"""How an array is not the wanted one."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def difference(want: Array, got: Array, rtol: float, atol: float | None = None) -> str:
    """What is different, in one line; empty if nothing is.

    Args:
        want, got: The arrays. Strings may be bytes or text; integers and bools are compared exactly.
        rtol: How far floats may be apart, as a part of the wanted ones; NaN is equal to NaN.
        atol: How far small ones may be; `rtol` when omitted.
    """
    is_text = want.dtype.kind in "OSU"
    if want.shape != got.shape or (want.dtype != got.dtype and not is_text):
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if is_text:
        equal = [*map(_text, want.ravel())] == [*map(_text, got.ravel())]
    elif want.dtype.kind in "biu":
        equal = np.array_equal(want, got)
    else:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        one, other = got.astype(wide), want.astype(wide)
        equal = np.allclose(one, other, rtol=rtol, atol=rtol if atol is None else atol, equal_nan=True)
    return "" if equal else f"{got.ravel()[:8].tolist()}, not {want.ravel()[:8].tolist()}"


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
