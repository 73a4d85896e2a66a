"""Compares a tensor with the NPU's, element by element, by the tolerances that ATB's own tests allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: How far an element may be from the NPU's, relative to its magnitude, by element type.
TOLERANCES = {"float16": 2.0**-8, "bfloat16": 2.0**-7, "float32": 2.0**-12, "float64": 2.0**-12}
#: What rounding once may change, relative to the magnitude.
ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
#: A sum of so many terms may be twice as far.
_MANY_TERMS = 2048
#: How far an element of a quantized result may be from the NPU's.
_STEP = 1.0
#: The magnitude against which an element is measured is at most this, unless its own is larger.
_UNIT = 1.0
#: ... and at least this: below it, values are noise around zero.
_LEAST_UNIT = 1e-4
_FLOAT16_MAX = 65504.0
#: As many elements are compared at once.
_PART = 2**20


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
    operation: str,
    tensor: str,
    actual: Array,
    expected: Array,
    tolerance: float | None = None,
    *,
    exact: bool = False,
    terms: int = 1,
    noise: Array | None = None,
) -> Comparison:
    """Compare a tensor with the NPU's. NaN and infinities must be at the same positions.

    An element may differ by the tolerance of its type times its magnitude, or times the largest magnitude of the
    tensor, at most 1, if that is larger. An int8 of a quantization may be 1 apart.

    Args:
        operation: The operation that wrote it.
        tensor: Its name.
        actual: The tensor computed here.
        expected: The NPU's.
        tolerance: Replaces the tolerance of a floating-point type.
        exact: Whether the operation only moves elements, or decides: no element may differ.
        terms: The number of terms of which an element is the sum; many of them double the tolerance.
        noise: How far each element may be off in addition, if that is known.
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
    here, npu = np.ascontiguousarray(actual).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    unit = _unit(npu) if dtype in TOLERANCES else 0.0
    if tolerance is None and dtype in TOLERANCES and not exact:
        tolerance = TOLERANCES[dtype] * (2 if terms >= _MANY_TERMS else 1)
    found = _Extremes()
    more = np.broadcast_to(np.zeros(1) if noise is None else noise, actual.shape).reshape(-1)
    for start in range(0, here.size, _PART):
        part = slice(start, start + _PART)
        limits = partial(_allowed, dtype=dtype, unit=unit, tolerance=tolerance, exact=exact, noise=more[part])
        found.add(here[part], npu[part], limits)
    if found.saturated and dtype == "float16":
        note = ", ".join(filter(None, (note, "65504 on the NPU is infinite here: try --fp16-overflow saturate")))
    place = None if found.place is None else tuple(int(i) for i in np.unravel_index(found.place, expected.shape))
    return Comparison(
        operation,
        tensor,
        dtype,
        shape,
        found.distance,
        found.relative,
        found.excess,
        place,
        None if found.place is None else float(here[found.place]),
        None if found.place is None else float(npu[found.place]),
        found.cosine,
        found.equal,
        found.within and actual.dtype == expected.dtype,
        note,
    )


@dataclass
class _Extremes:
    """The largest differences of the parts so far; caches of keys and values are too large to be wide as a whole."""

    distance: float = 0.0
    relative: float = 0.0
    excess: float = 0.0
    place: int | None = None
    equal: bool = True
    within: bool = True
    saturated: bool = False
    count: int = 0
    finite: bool = True
    products: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def add(self, here: Array, npu: Array, allowed_for: Callable[[Array], Array]) -> None:
        """Add a part."""
        a, b = here.astype(np.float64), npu.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = np.isfinite(a) & np.isfinite(b)
        self.finite = self.finite and bool(finite.all())
        if self.finite:
            sums = (np.dot(a, b), np.dot(a, a), np.dot(b, b))
            self.products = (
                self.products[0] + float(sums[0]),
                self.products[1] + float(sums[1]),
                self.products[2] + float(sums[2]),
            )
        if not same.all():
            self._add_difference(a, b, same, finite, allowed_for(b))
        self.count += here.size

    def _add_difference(self, a: Array, b: Array, same: Array, finite: Array, allowed: Array) -> None:
        self.equal = False
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.where(same, 0.0, np.where(finite, np.abs(a - b), np.inf))
            relative = np.where(same, 0.0, distance / np.maximum(np.abs(np.where(finite, b, 1.0)), 1e-30))
            excess = np.where(same, 0.0, distance / np.maximum(allowed, 1e-300))
        worst = int(np.argmax(excess))
        if self.place is None or excess[worst] > self.excess:
            self.place, self.excess = self.count + worst, float(excess[worst])
        self.distance = max(self.distance, float(distance.max()))
        self.relative = max(self.relative, float(relative.max()))
        self.within = self.within and bool((distance <= allowed).all())
        self.saturated = self.saturated or bool(np.any(~same & np.isinf(a) & (np.abs(b) == _FLOAT16_MAX)))

    @property
    def cosine(self) -> float | None:
        """The cosine of the angle between the two tensors."""
        norms = float(np.sqrt(self.products[1]) * np.sqrt(self.products[2])) if self.finite else 0.0
        return self.products[0] / norms if norms else None


def _unit(npu: Array) -> float:
    """The largest finite magnitude in a tensor, within limits."""
    largest = _LEAST_UNIT
    for start in range(0, npu.size, _PART):
        sizes = np.abs(npu[start : start + _PART].astype(np.float32))
        largest = max(largest, float(np.max(sizes, initial=0.0, where=np.isfinite(sizes))))
        if largest >= _UNIT:
            return _UNIT
    return largest


def _allowed(npu: Array, *, dtype: str, unit: float, tolerance: float | None, exact: bool, noise: Array) -> Array:
    """How far each element may be from the NPU's, which is float64 here."""
    if dtype in TOLERANCES:
        if exact and tolerance is None:
            return np.zeros_like(npu)
        factor = TOLERANCES[dtype] if tolerance is None else tolerance
        return np.asarray(factor * np.maximum(np.abs(np.where(np.isfinite(npu), npu, 0.0)), unit) + noise)
    return np.full_like(npu, 0.0 if exact or dtype != "int8" else _STEP)
