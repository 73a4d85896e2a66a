"""What equals what: the one policy by which arrays of two programs are compared.

Types, shapes, integers, booleans and strings must be equal. Floats may differ by a part of their value, and by a tenth
of that part of the magnitude of their column. NaN equals NaN, and infinities are equal to themselves.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: By how much floats may differ, as a part of their value, by the least exact type that the model computes with; a
#: tenth of it is also allowed of the output's magnitude. Half floats differ by a few units in the last place, because
#: frameworks round at every step.
TOLERANCES = {"float64": 1e-5, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}

#: The magnitude of an output is at most so many times its median: a few huge values must not hide all others.
_TIMES_MEDIAN = 10

#: Below these, kernels may flush numbers to zero; the half floats' are computed in float32.
_SMALLEST = {"float64": 2.3e-308, "float32": 1.2e-38, "float16": 6e-8, "bfloat16": 1.2e-38}


@dataclass(frozen=True)
class Bounds:
    """What somebody allows instead of what `difference` allows by itself.

    Attributes:
        atol: With `rtol`, floats may differ by `atol + rtol * abs(want)`, as in `numpy.allclose`. Either is 0 if only
            the other one is given; if both are None, the rule stays.
        rtol: See `atol`.
        most: How many elements of an array may differ by more; of integers, booleans and strings, how many may differ.

    Raises:
        ValueError: One is negative or not a number.
    """

    atol: float | None = None
    rtol: float | None = None
    most: int = 0

    def __post_init__(self) -> None:
        for name, value in (("atol", self.atol), ("rtol", self.rtol), ("max_different", self.most)):
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is {value}; expected a number from 0 on")

    @property
    def are_numbers(self) -> bool:
        """Whether the differences of floats are bounded here."""
        return self.atol is not None or self.rtol is not None

    def of(self, size: Array) -> Array:
        """By how much floats of these absolute values may differ."""
        return (self.atol or 0.0) + (self.rtol or 0.0) * size


#: The rule as it is.
RULE = Bounds()


@dataclass(frozen=True)
class Difference:
    """How an array differs from another.

    Attributes:
        reason: What differs by more than is allowed; empty if nothing does.
        max_abs: The largest absolute difference of finite floats; 0 for anything but floats.
        max_rel: The largest relative difference.
        rms: The root of the mean squared difference.
        elements: How many elements these are: the finite floats.
        tolerance: The largest difference that was allowed where the largest one is.
        noise: The largest noise that was allowed where the tolerance is less.
        count: How many elements differ by more than is allowed of each.
        where: Where the largest difference is, with both values, as `"[3, 0]: 0.75, not 0.5"`; empty without one.
    """

    reason: str = ""
    max_abs: float = 0.0
    max_rel: float = 0.0
    rms: float = 0.0
    elements: int = 0
    tolerance: float = 0.0
    noise: float = 0.0
    count: int = 0
    where: str = ""


def difference(
    want: Array,
    got: Array,
    computed: Collection[str] = (),
    *,
    magnitude: Array | float | None = None,
    floor: Array | float = 0.0,
    exact: bool = False,
    bounds: Bounds = RULE,
) -> Difference:
    """Compare an array with the one that is right.

    Args:
        want: The right one.
        got: The other one.
        computed: Half-float types that the program computes with: a float32 result of these is only as exact as they
            are.
        magnitude: The output's magnitude over all batches (`magnitude_of`); if omitted, the largest value of `want`.
        floor: The rounding noise of the elements: differences up to it are allowed.
        exact: Whether floats must be equal, too.
        bounds: What is allowed instead.
    """
    if dtype_name(want) != dtype_name(got):
        return Difference(f"dtype is {dtype_name(got)}")
    if want.shape != got.shape:
        return Difference(f"shape is {got.shape}, not {want.shape},")
    if not is_float(want):
        differ = np.asarray(want != got, bool)
        count = int(np.count_nonzero(differ))
        return Difference(_reason(count, bounds), count=count, where=_where(want, got, differ))
    wide_want, wide_got = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(wide_want)
    apart = np.asarray(~finite & (wide_want != wide_got) & ~(np.isnan(wide_want) & np.isnan(wide_got)))
    error = np.abs(wide_want[finite] - wide_got[finite])
    size = np.abs(wide_want[finite])
    own = size.max(initial=0) if magnitude is None else np.broadcast_to(magnitude, want.shape)[finite]
    noise = np.broadcast_to(floor, want.shape)[finite]
    within = relative_tolerance(want, computed) * (size + 0.1 * own) + _SMALLEST[want.dtype.name]
    if bounds.are_numbers:
        within, noise = bounds.of(size), np.zeros_like(size)
    allowed = np.zeros_like(within) if exact else np.maximum(within, noise)
    apart[finite] = ~(error <= allowed) | ~np.isfinite(wide_got[finite])
    count = int(np.count_nonzero(apart))
    distance = np.asarray(np.where(apart, np.inf, 0.0))
    distance[finite] = np.nan_to_num(error, nan=np.inf, posinf=np.inf)
    with np.errstate(over="ignore"):
        squares = float(np.square(error).sum())
    return Difference(
        _reason(count, bounds),
        max_abs=float(error.max(initial=0)),
        max_rel=float((error / np.where(size == 0, 1, size)).max(initial=0)),
        rms=math.sqrt(squares / max(error.size, 1)),
        elements=error.size,
        tolerance=float(allowed[np.argmax(error)]) if error.size else 0.0,
        noise=float(noise[error > within].max(initial=0)),
        count=count,
        where=_where(want, got, distance),
    )


def _reason(count: int, bounds: Bounds) -> str:
    if count <= bounds.most:
        return ""
    return f"{count} values differ, {bounds.most} may," if bounds.most else "values differ"


def _where(want: Array, got: Array, distance: Array) -> str:
    """Where the largest distance is, with the values there; empty where all are 0."""
    if not distance.any():
        return ""
    place = np.unravel_index(np.argmax(distance), distance.shape)
    return f"{[*map(int, place)]}: {got[place]}, not {want[place]}"


def relative_tolerance(want: Array, computed: Collection[str]) -> float:
    """By how much an output's floats may differ, as a part of their value."""
    return max(TOLERANCES[name] for name in (dtype_name(want), *computed))


def magnitude_of(values: Sequence[Array]) -> Array:
    """The magnitude of an output of floats in all batches, for tolerances: its largest finite value, or a few times its
    median. Columns, along the last axis, have one each: one of large numbers must not hide one of probabilities."""
    rows = _columns(values)
    return _of_numbers(np.minimum(_over_rows(np.nanmax, rows), _TIMES_MEDIAN * _over_rows(np.nanmedian, rows)))


def noise_of_order(values: Sequence[Array], computed: Collection[str] = ()) -> Array | float:
    """The rounding noise of an output that is a sum of the same numbers in another order, as products of matrices of
    more rows are, or sums of the sums of shards: its whole tolerance at the largest finite value of its column in all
    batches. 0 for anything but floats."""
    if not all(map(is_float, values)):
        return 0.0
    relative = max((relative_tolerance(value, computed) for value in values), default=0.0)
    return relative * _of_numbers(_over_rows(np.nanmax, _columns(values)))


def _columns(values: Sequence[Array]) -> Array:
    """The sizes of all numbers of some batches by column, or in one column; NaN where there is no number but 0."""
    columns = {value.shape[-1] for value in values if value.ndim > 1}
    by_column = len(columns) == 1 and all(value.ndim > 1 for value in values)
    wide = [np.abs(value.astype(np.float64)) for value in values]
    rows = np.concatenate([w.reshape(math.prod(w.shape[:-1]), *columns) if by_column else w.ravel() for w in wide])
    rows[~np.isfinite(rows) | (rows == 0)] = np.nan
    return rows


def _over_rows(statistic: Any, rows: Array) -> Array:
    """A statistic of each column; NaN for one without numbers."""
    if np.isnan(rows).all():  # or there are none
        return np.full(rows.shape[1:], np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without numbers
        return np.asarray(statistic(rows, axis=0))


def _of_numbers(found: Array) -> Array:
    return np.asarray(np.nan_to_num(found))


def dtype_name(array: Array) -> str:
    """numpy's name of an array's element type; `"string"` for strings."""
    return "string" if array.dtype == object else array.dtype.name


def is_float(array: Array) -> bool:
    """Whether an array has floats, which are compared with tolerances."""
    return array.dtype.name in TOLERANCES
