"""Compares a tensor with the NPU's by the measures of ATB's, msit's and msprobe's tests, and by rows.

ATB's rule, |a - b| <= t max(1, |b|) for each element, is blind where a tensor's elements are small: a softmax that has
lost its rows is within it. So a tensor must pass by each of these measures, with t the tolerance of its type:

- elements: no element is further off than t times its magnitude, or several times that of its row, at most 1
- rows: no row is further off than twice t times its norm
- tensor: the whole is not further off than t times its norm
- bias: the mean of the errors, relative to max(1, |b|), is at most a quarter of t (ATB's mean error)
- lost: elements that are wrong by more than half of their value are few (msit's share of elements)

Sums of products may be rounded to their type after each term, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

Array = np.ndarray[Any, Any]

#: How far an element may be from the NPU's, relative to its magnitude, by element type.
TOLERANCES = {"float16": 2.0**-8, "bfloat16": 2.0**-7, "float32": 2.0**-12, "float64": 2.0**-12}
#: What rounding once may change, relative to the magnitude.
ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
#: A sum of so many terms may be twice as far.
_MANY_TERMS = 2048
#: How far an element of a quantized result may be from the NPU's, and the mean of all.
_STEP, _STEP_BIAS = 1.0, 0.125
#: The magnitude against which an element is measured is at most this, unless its own is larger.
_UNIT = 1.0
#: ... and at least this, and this share of the tensor's: below, values are noise around zero.
_LEAST_UNIT, _LEAST_SHARE = 1e-4, 2.0**-6
#: Elements of a row are measured against so many times its root mean square.
_ROW_UNIT = {"bfloat16": 16.0}
_USUAL_ROW_UNIT = 8.0
#: Rounding after each of n terms adds up as the root of n; of more terms, sums are accumulated in float32.
_MOST_ROUNDED = 256
#: A row may be off by this in each element, whatever its norm: where inputs cancel, only noise is left.
_ROW_NOISE = 2.0**-20
#: Below this an element may be lost: float16 has denormal numbers there.
_TINY = {"float16": 1e-6}
_TINIEST = 1e-12
#: Such a share of elements may be lost to noise around zero, and as many times the tolerance.
_LOST_SHARE, _LOST_FACTOR = 0.005, 4.0
#: The last axes are joined until a row has so many elements.
_LEAST_ROW = 8
_FLOAT16_MAX = 65504.0
#: As many elements are compared at once.
_PART = 2**20
#: Shares of elements within these relative errors are what msprobe reports.
THOUSANDTHS = (1e-3, 5e-3)


@dataclass(frozen=True)
class Summary:
    """The finite elements of a tensor: the largest, the least, their mean and norm."""

    max: float
    min: float
    mean: float
    norm: float


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
        measures: Each measure, relative to what the tolerance allows; empty if sizes differ.
        where: The position of the element that exceeds its tolerance most; None if all are equal.
        here: This element as computed here.
        npu: This element as the NPU has it.
        euclidean: The norm of all differences.
        cosine: The cosine of the angle between the two; None if one of them is zero or not finite.
        shares: The shares of elements within 1 and 5 thousandths of the NPU's value.
        computed: What is computed here.
        recorded: What the NPU has.
        equal: Whether all values are equal.
        ok: Whether they agree within the tolerance.
        note: Any other difference.
        file: The file of the NPU's tensor.
        terms: The number of terms of which an element is the sum.
    """

    operation: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    measures: dict[str, float]
    where: tuple[int, ...] | None
    here: float | None
    npu: float | None
    euclidean: float | None
    cosine: float | None
    shares: tuple[float, float] | None
    computed: Summary | None
    recorded: Summary | None
    equal: bool
    ok: bool
    note: str = ""
    file: Path | None = None
    terms: int = 1

    @property
    def verdict(self) -> str:
        """`equal`, `ok` (within the tolerance) or `DIFFERS`."""
        return "equal" if self.equal and self.ok else "ok" if self.ok else "DIFFERS"

    @property
    def excess(self) -> float:
        """The worst measure, relative to what the tolerance allows."""
        return max(self.measures.values(), default=np.inf)


class Rounding(TypedDict):
    """How results may be rounded: the arguments of `compare`."""

    exact: bool
    terms: int
    noise: Array | None


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

    An int8 of a quantization may be 1 apart; other integers may not differ.

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
    notes = []
    if actual.shape != expected.shape:
        notes.append(f"{list(actual.shape)} here")
        if actual.size != expected.size:
            size: Any = (np.inf, np.inf, {}, None, None, None, None, None, None, None, None, False, False, notes[0])
            return Comparison(operation, tensor, dtype, shape, *size)
        actual = actual.reshape(expected.shape)
    if noise is not None and noise.size == expected.size:
        noise = noise.reshape(expected.shape)
    if actual.dtype != expected.dtype:
        notes = [f"{actual.dtype} here"]
    if tolerance is None and dtype in TOLERANCES and not exact:
        tolerance = TOLERANCES[dtype] * (2 if terms >= _MANY_TERMS else 1)
    unit = _unit(expected) if dtype in TOLERANCES else 0.0
    rounded = 0.0 if exact or terms == 1 else ROUNDOFF.get(dtype, 0.0) * float(np.sqrt(min(terms, _MOST_ROUNDED)))
    found = _Differences(dtype, tolerance, exact, unit, rounded)
    for here, npu, more, same in _blocks(actual, expected, noise):
        found.add(here, npu, more, same)
    if found.saturated and dtype == "float16":
        notes.append("65504 on the NPU is infinite here: try --fp16-overflow saturate")
    place, measures = found.place, found.measures()
    failed = [name for name, value in measures.items() if value > 1 and name != "elements"]
    if failed and measures["elements"] <= 1:
        notes.append(found.reason(failed[0]))
    return Comparison(
        operation,
        tensor,
        dtype,
        shape,
        found.distance,
        found.relative,
        measures,
        None if place is None else tuple(int(i) for i in np.unravel_index(place, expected.shape)),
        None if place is None else float(actual.reshape(-1)[place]),
        None if place is None else float(expected.reshape(-1)[place]),
        float(np.sqrt(found.differences)) if found.is_finite else None,
        found.cosine,
        None if not found.count else (found.within[0] / found.count, found.within[1] / found.count),
        found.computed.summary(),
        found.recorded.summary(),
        found.equal,
        all(value <= 1 for value in measures.values()) and actual.dtype == expected.dtype,
        ", ".join(notes),
        terms=terms,
    )


def _blocks(actual: Array, expected: Array, noise: Array | None) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Rows of both tensors as float64, and how far they may be off; caches are too large to be wide as a whole."""
    width = 1
    for size in reversed(expected.shape):
        width *= size
        if width >= _LEAST_ROW:
            break
    rows = expected.size // width if width else 0
    here, npu = (np.ascontiguousarray(tensor).reshape(rows, width) for tensor in (actual, expected))
    more = np.broadcast_to(np.zeros(1) if noise is None else noise, expected.shape).reshape(rows, width)
    tall, wide = max(1, _PART // max(width, 1)), min(width, _PART)
    for top in range(0, rows, tall):
        for left in range(0, width, max(wide, 1)):
            part = slice(top, top + tall), slice(left, left + wide)
            a, b = here[part], npu[part]
            x, y = a.astype(np.float64), b.astype(np.float64)
            yield x, y, more[part], (a == b) | (np.isnan(x) & np.isnan(y))


@dataclass
class _Sums:
    """Sums over the finite elements of a tensor so far."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    largest: float = -np.inf
    least: float = np.inf

    def add(self, values: Array, finite: Array) -> None:
        self.count += int(finite.sum())
        kept = np.where(finite, values, 0.0)
        self.total += float(kept.sum())
        self.squares += float(np.vdot(kept, kept))
        self.largest = max(self.largest, float(np.max(values, initial=-np.inf, where=finite)))
        self.least = min(self.least, float(np.min(values, initial=np.inf, where=finite)))

    def summary(self) -> Summary | None:
        if not self.count:
            return None
        return Summary(self.largest, self.least, self.total / self.count, float(np.sqrt(self.squares)))


@dataclass
class _Differences:
    """The differences of the rows so far."""

    dtype: str
    tolerance: float | None
    exact: bool
    unit: float
    rounded: float
    distance: float = 0.0
    relative: float = 0.0
    excess: float = 0.0
    place: int | None = None
    row_excess: float = 0.0
    row: int = 0
    rows: int = 0
    equal: bool = True
    saturated: bool = False
    count: int = 0
    within: list[int] = field(default_factory=lambda: [0, 0])
    bias: float = 0.0
    lost: int = 0
    errors: float = 0.0
    differences: float = 0.0
    products: float = 0.0
    computed: _Sums = field(default_factory=_Sums)
    recorded: _Sums = field(default_factory=_Sums)
    is_finite: bool = True

    def add(self, a: Array, b: Array, more: Array, same: Array) -> None:
        """Add rows."""
        finite_a, finite_b = np.isfinite(a), np.isfinite(b)
        finite = finite_a & finite_b
        self.computed.add(a, finite_a)
        self.recorded.add(b, finite_b)
        self.is_finite = self.is_finite and bool(finite.all())
        self.products += float(np.vdot(np.where(finite, a, 0.0), np.where(finite, b, 0.0)))
        if same.all():
            self.within = [n + a.size for n in self.within]
        else:
            self._add_differences(a, b, more, same, finite)
        self.count += a.size
        self.rows += len(a)

    def _add_differences(self, a: Array, b: Array, more: Array, same: Array, finite: Array) -> None:
        self.equal = False
        magnitude = np.abs(np.where(finite, b, 0.0))
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.where(same, 0.0, np.where(finite, np.abs(a - b), np.inf))
            distance[~same & (a == b)] = 1.0  # integers that float64 cannot tell apart
            relative = np.where(same, 0.0, distance / np.maximum(np.abs(np.where(finite, b, 1.0)), 1e-30))
            allowed = self._allowed(magnitude, finite) + more
            excess = np.where(same, 0.0, distance / np.maximum(allowed, 1e-300))
        worst = int(np.argmax(excess))
        if self.place is None or excess.flat[worst] > self.excess:
            self.place, self.excess = self.count + worst, float(excess.flat[worst])
        self.distance = max(self.distance, float(distance.max()))
        self.relative = max(self.relative, float(relative.max()))
        self.saturated = self.saturated or bool(np.any(~same & np.isinf(a) & (np.abs(b) == _FLOAT16_MAX)))
        self.within = [n + int((relative <= share).sum()) for n, share in zip(self.within, THOUSANDTHS, strict=True)]
        with np.errstate(invalid="ignore"):
            error = np.where(finite & ~same, a - b, 0.0)
        self.differences += float(np.vdot(error, error))
        beyond = np.sign(error) * np.maximum(np.abs(error) - more, 0.0)
        self.bias += float((beyond / (np.maximum(magnitude, 1.0) if self.dtype in TOLERANCES else 1.0)).sum())
        if self.dtype in TOLERANCES:
            tiny = _TINY.get(self.dtype, _TINIEST)
            wrong = np.abs(beyond) > np.maximum(0.5 * np.maximum(magnitude, np.abs(np.where(finite, a, 0.0))), tiny)
            self.lost += int(wrong.sum())
            self.errors += float(np.vdot(beyond, beyond))
            self._add_rows(beyond, magnitude)

    def _add_rows(self, error: Array, magnitude: Array) -> None:
        floor = np.sqrt(error.shape[1]) * max(_ROW_NOISE * self.unit, _LEAST_UNIT * self._factor)
        norms = (2 * self._factor + self.rounded) * np.linalg.norm(magnitude, axis=1) + floor
        ratios = np.linalg.norm(error, axis=1) / np.maximum(norms, 1e-300)
        worst = int(np.argmax(ratios))
        if ratios[worst] > self.row_excess:
            self.row_excess, self.row = float(ratios[worst]), self.rows + worst

    @property
    def _factor(self) -> float:
        return 0.0 if self.tolerance is None else self.tolerance

    def _allowed(self, magnitude: Array, finite: Array) -> Array:
        """How far each element may be from the NPU's."""
        if self.dtype not in TOLERANCES:
            return np.full_like(magnitude, 0.0 if self.exact or self.dtype != "int8" else _STEP)
        count = np.maximum(finite.sum(1, keepdims=True), 1)
        usual = np.sqrt(np.square(np.minimum(magnitude, 1e100)).sum(1, keepdims=True) / count)
        least = max(_LEAST_UNIT, _LEAST_SHARE * self.unit)
        unit = np.clip(_ROW_UNIT.get(self.dtype, _USUAL_ROW_UNIT) * usual, least, self.unit)
        return np.asarray(self._factor * np.maximum(magnitude, unit) + 2 * self.rounded * usual)

    def measures(self) -> dict[str, float]:
        """Each measure, relative to what is allowed."""
        found = {"elements": self.excess}
        if self.equal or not self.count:
            return found
        if self.dtype in TOLERANCES and self._factor:
            found["rows"] = self.row_excess
            floor = np.sqrt(self.count) * max(_ROW_NOISE * self.unit, _LEAST_UNIT * self._factor)
            norm = (self._factor + self.rounded) * np.sqrt(self.recorded.squares) + floor
            found["tensor"] = float(np.sqrt(self.errors) / norm)
            chance = (self._factor + self.rounded) / np.sqrt(self.count)
            found["bias"] = float(abs(self.bias) / self.count / (0.25 * self._factor + chance))
            found["lost"] = self.lost / (self.count * (_LOST_SHARE + _LOST_FACTOR * self._factor) + 1)
        elif self.dtype == "int8" and not self.exact:
            found["bias"] = abs(self.bias) / self.count / _STEP_BIAS if self.count >= 64 else 0.0
        return found

    def reason(self, measure: str) -> str:
        """What a measure other than that of elements has found."""
        if measure == "rows":
            return f"row {self.row} of {self.rows} is off by {self.row_excess:.3g} times what its norm allows"
        if measure == "lost":
            return f"{self.lost} of {self.count} elements are off by more than half of their value"
        return {"tensor": "the norm of all errors is too large", "bias": "the errors have one direction"}[measure]

    @property
    def cosine(self) -> float | None:
        """The cosine of the angle between the two tensors."""
        norms = float(np.sqrt(self.computed.squares) * np.sqrt(self.recorded.squares)) if self.is_finite else 0.0
        return self.products / norms if norms else None


def _unit(npu: Array) -> float:
    """The largest finite magnitude in a tensor, within limits."""
    largest = _LEAST_UNIT
    flat = np.ascontiguousarray(npu).reshape(-1)
    for start in range(0, flat.size, _PART):
        sizes = np.abs(flat[start : start + _PART].astype(np.float32))
        largest = max(largest, float(np.max(sizes, initial=0.0, where=np.isfinite(sizes))))
        if largest >= _UNIT:
            return _UNIT
    return largest
