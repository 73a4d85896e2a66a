"""Compares a tensor with the NPU's, element by element, by the tolerances that ATB's own tests allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: How far an element may be from the NPU's, relative to its magnitude, by element type.
TOLERANCES = {"float16": 2.0**-8, "bfloat16": 2.0**-7, "float32": 2.0**-12, "float64": 2.0**-12}
#: How far an element of a quantised result may be from the NPU's.
_STEP = 1.0
#: The magnitude against which an element is measured is at most this, unless its own is larger.
_UNIT = 1.0
#: ... and at least this: below it, values are noise around zero.
_LEAST_UNIT = 1e-4
_FLOAT16_MAX = 65504.0


@dataclass(frozen=True)
class Comparison:
    """The comparison of one tensor with the NPU's.

    Attributes:
        operation: The operation that wrote it; the graph's name for its outputs.
        tensor: Its name.
        dtype: The element type.
        shape: The shape in the dump.
        max_abs: The largest difference.
        max_rel: The largest difference relative to the NPU's value.
        excess: The largest difference relative to what the tolerance allows for that element.
        where: The position of the element that exceeds its tolerance most; None if all are equal.
        here: This element as computed here.
        npu: This element as the NPU has it.
        cosine: The cosine of the angle between the two; None if one of them is zero or not finite.
        equal: Whether all values are equal.
        ok: Whether they agree within the tolerance.
        note: Any other difference.
    """

    operation: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    excess: float
    where: tuple[int, ...] | None
    here: float | None
    npu: float | None
    cosine: float | None
    equal: bool
    ok: bool
    note: str = ""

    @property
    def verdict(self) -> str:
        """`equal`, `ok` (within the tolerance) or `DIFFERS`."""
        return "equal" if self.equal and self.ok else "ok" if self.ok else "DIFFERS"


def compare(
    operation: str, tensor: str, actual: Array, expected: Array, tolerance: float | None = None, *, exact: bool = False
) -> Comparison:
    """Compare a tensor with the NPU's. NaN and infinities must be at the same positions.

    An element may differ by the tolerance of its type times its magnitude, or times the largest magnitude of the
    tensor, at most 1, if that is larger. An int8 of a quantisation may be 1 apart.

    Args:
        operation: The operation that wrote it.
        tensor: Its name.
        actual: The tensor computed here.
        expected: The NPU's.
        tolerance: Replaces the tolerance of a floating-point type.
        exact: Whether the operation only moves elements, or decides: no element may differ.
    """
    dtype, shape = str(expected.dtype), tuple(expected.shape)
    note = ""
    if actual.shape != expected.shape:
        note = f"{list(actual.shape)} here"
        if actual.size != expected.size:
            infinite = float("inf")
            return Comparison(
                operation,
                tensor,
                dtype,
                shape,
                infinite,
                infinite,
                infinite,
                None,
                None,
                None,
                None,
                False,
                False,
                note,
            )
        actual = actual.reshape(expected.shape)
    if actual.dtype != expected.dtype:
        note = f"{actual.dtype} here"
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.where(finite, np.abs(a - b), np.inf))
        relative = np.where(same, 0.0, distance / np.maximum(np.abs(np.where(finite, b, 1.0)), 1e-30))
    allowed = _allowed(b, dtype, tolerance, exact=exact)
    within = distance <= allowed
    excess = np.where(same, 0.0, distance / np.maximum(allowed, 1e-300))
    worst = None if same.all() else np.unravel_index(int(np.argmax(excess)), expected.shape)
    norms = float(np.linalg.norm(a) * np.linalg.norm(b)) if finite.all() else 0.0
    if np.any(~same & np.isinf(a) & (np.abs(b) == _FLOAT16_MAX)) and dtype == "float16":
        note = ", ".join(filter(None, (note, "65504 on the NPU is infinite here: try --fp16-overflow saturate")))
    return Comparison(
        operation,
        tensor,
        dtype,
        shape,
        float(np.max(distance, initial=0.0)),
        float(np.max(relative, initial=0.0)),
        float(np.max(excess, initial=0.0)),
        None if worst is None else tuple(int(i) for i in worst),
        None if worst is None else float(a[worst]),
        None if worst is None else float(b[worst]),
        float(np.vdot(a, b)) / norms if norms else None,
        bool(same.all()),
        bool(within.all()) and actual.dtype == expected.dtype,
        note,
    )


def _allowed(npu: Array, dtype: str, tolerance: float | None, *, exact: bool) -> Array:
    """How far each element may be from the NPU's, which is float64 here."""
    if dtype in TOLERANCES:
        if exact and tolerance is None:
            return np.zeros_like(npu)
        factor = TOLERANCES[dtype] if tolerance is None else tolerance
        sizes = np.abs(np.where(np.isfinite(npu), npu, 0.0))
        unit = min(max(float(np.max(sizes, initial=0.0)), _LEAST_UNIT), _UNIT)
        return np.asarray(factor * np.maximum(sizes, unit))
    return np.full_like(npu, 0.0 if exact or dtype != "int8" else _STEP)
