"""The comparison of a converted model's outputs with those of the model it came from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from onnx_sparse.models.graphs import half_floats as half_floats

Array = np.ndarray[Any, Any]

#: By how much floats may differ, as a part of their value, by the least exact type that the model computes with; a
#: tenth of it is also allowed of the output's magnitude. Half floats differ by a few units in the last place, because
#: frameworks round at every step.
TOLERANCES = {"float64": 1e-5, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}

#: The magnitude of an output is at most so many times its median: a few huge values must not hide all others.
_TIMES_MEDIAN = 10

#: Below these, kernels may flush numbers to zero; the half floats' are computed in float32.
_SMALLEST = {"float64": 2.3e-308, "float32": 1.2e-38, "float16": 6e-8, "bfloat16": 1.2e-38}


class Verdict(StrEnum):
    """What a verification says about an output."""

    EQUAL = "ok"
    DIFFERENT = "differs"
    NOT_COMPARED = "not compared"
    """No batch with rows was compared, or the output was empty in all of them."""
    RANDOM = "random"
    """The values are random, and the types and shapes are equal."""
    REFUSED = "refused"
    """The source refuses every batch."""


@dataclass(frozen=True)
class Record:
    """The comparison of one output over all batches.

    Attributes:
        output: The output's name.
        dtype: numpy's name of the source's element type; `"string"` for strings.
        shape: Its shape in the first batch.
        max_abs: The largest absolute difference; 0 for anything but numbers.
        max_rel: The largest relative difference.
        rms: The root of the mean squared difference, over the elements of all batches.
        elements: How many elements these are: the finite floats.
        tolerance: The largest difference that was allowed where the largest one is.
        noise: The largest rounding noise that was measured and allowed, where the tolerance is less.
        explained: How many elements differ intentionally or by rounding alone. They do not count as differences.
        verdict: Whether dtype, shape and values agreed in every batch, if there was anything to compare.
        batches: In how many batches with rows something was compared.
        note: What differed, what differs by design, or why a batch was skipped.
        worst: The batch with the largest difference; empty if nothing differs.
    """

    output: str
    dtype: str
    shape: tuple[int, ...]
    max_abs: float = 0.0
    max_rel: float = 0.0
    rms: float = 0.0
    elements: int = 0
    tolerance: float = 0.0
    noise: float = 0.0
    explained: int = 0
    verdict: Verdict = Verdict.EQUAL
    batches: int = 0
    note: str = ""
    worst: str = ""

    @property
    def ok(self) -> bool:
        """Whether something was compared and nothing differed."""
        return self.verdict is Verdict.EQUAL


def compare(
    output: str,
    want: Array,
    got: Array,
    kind: str,
    note: str = "",
    computed: Collection[str] = (),
    *,
    magnitude: Array | float | None = None,
    floor: Array | float = 0.0,
) -> Record:
    """Compare the source's value of an output with ONNX Runtime's in the batch `kind`; `note` goes into the record.

    Args:
        computed: Half-float types that the model computes with: a float32 result of these is only as exact as they are.
        magnitude: The output's magnitude over all batches (`magnitude_of`); if omitted, the largest value of `want`.
        floor: The rounding noise of the elements: differences up to it are allowed.
    """
    record = Record(output, dtype_name(want), want.shape, note=note)
    if dtype_name(want) != dtype_name(got):
        return replace(record, verdict=Verdict.DIFFERENT, note=f"dtype is {dtype_name(got)} in the batch {kind!r}")
    if want.shape != got.shape:
        note = f"shape is {got.shape}, not {want.shape}, in the batch {kind!r}"
        return replace(record, verdict=Verdict.DIFFERENT, note=note)
    if not is_float(want):
        equal = bool(np.array_equal(want, got))
        return record if equal else _different(record, kind)
    relative = relative_tolerance(want, computed)
    wide_want, wide_got = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(wide_want)
    same = np.array_equal(wide_want[~finite], wide_got[~finite], equal_nan=True) and np.isfinite(wide_got[finite]).all()
    error = np.abs(wide_want[finite] - wide_got[finite])
    size = np.abs(wide_want[finite])
    own = size.max(initial=0) if magnitude is None else np.broadcast_to(magnitude, want.shape)[finite]
    noise = np.broadcast_to(floor, want.shape)[finite]
    within = relative * (size + 0.1 * own) + _SMALLEST[want.dtype.name]
    allowed = np.maximum(within, noise)
    ok = bool(same and (error <= allowed).all())
    with np.errstate(over="ignore"):
        squares = float(np.square(error).sum())
    record = replace(
        record,
        max_abs=float(error.max(initial=0)),
        max_rel=float((error / np.where(size == 0, 1, size)).max(initial=0)),
        rms=math.sqrt(squares / max(error.size, 1)),
        elements=error.size,
        tolerance=float(allowed[np.argmax(error)]) if error.size else 0.0,
        noise=float(noise[error > within].max(initial=0)),
        worst=kind if error.max(initial=0) > 0 else "",
    )
    return record if ok else _different(record, kind)


def relative_tolerance(want: Array, computed: Collection[str]) -> float:
    """By how much an output's floats may differ, as a part of their value."""
    return max(TOLERANCES[name] for name in (dtype_name(want), *computed))


def magnitude_of(values: Sequence[Array]) -> Array:
    """The magnitude of an output of floats in all batches, for tolerances: its largest finite value, or a few times its
    median. Columns, along the last axis, have one each: one of large numbers must not hide one of probabilities."""
    columns = {value.shape[-1] for value in values if value.ndim > 1}
    by_column = len(columns) == 1 and all(value.ndim > 1 for value in values)
    wide = [np.abs(value.astype(np.float64)) for value in values]
    rows = np.concatenate([w.reshape(math.prod(w.shape[:-1]), *columns) if by_column else w.ravel() for w in wide])
    rows[~np.isfinite(rows) | (rows == 0)] = np.nan
    if np.isnan(rows).all():  # or there are none
        return np.zeros(rows.shape[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without numbers
        found = np.minimum(np.nanmax(rows, axis=0), _TIMES_MEDIAN * np.nanmedian(rows, axis=0))
    return np.asarray(np.nan_to_num(found))


def _different(record: Record, kind: str) -> Record:
    return replace(record, verdict=Verdict.DIFFERENT, note=f"values differ in the batch {kind!r}")


def merge(before: Record | None, after: Record) -> Record:
    """Merge the records of two batches of the same output."""
    if before is None:
        return after
    worse = after.max_abs > before.max_abs
    elements = before.elements + after.elements
    return replace(
        before,
        worst=after.worst if worse else before.worst,
        max_abs=max(before.max_abs, after.max_abs),
        max_rel=max(before.max_rel, after.max_rel),
        rms=math.sqrt((before.elements * before.rms**2 + after.elements * after.rms**2) / max(elements, 1)),
        elements=elements,
        tolerance=after.tolerance if worse or not before.elements else before.tolerance,
        noise=max(before.noise, after.noise),
        explained=before.explained + after.explained,
        verdict=before.verdict if after.ok else after.verdict,
        batches=before.batches + after.batches,
        note="; ".join(dict.fromkeys(filter(None, (*before.note.split("; "), after.note)))),
    )


def dtype_name(array: Array) -> str:
    """numpy's name of an array's element type; `"string"` for strings."""
    return "string" if array.dtype == object else array.dtype.name


def is_float(array: Array) -> bool:
    """Whether an array has floats, which are compared with tolerances."""
    return array.dtype.name in TOLERANCES
