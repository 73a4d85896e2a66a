"""The comparison of a converted model's outputs with those of the model it came from."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from onnx_sparse.comparison import RULE, Bounds, difference, dtype_name
from onnx_sparse.models.graphs import half_floats as half_floats

Array = np.ndarray[Any, Any]


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
        most_rows: The most rows of one of these.
        limited: Why "ok" says less than usual, although inputs were generated, as `"1 batch of up to 1 row"` and `"no
            batch of several rows"`; else empty.
        note: What differed, what differs by design, or why a batch was skipped.
        worst: The batch with the largest difference; empty if nothing differs.
        where: The element of this batch, and both values; empty if nothing differs.
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
    most_rows: int = 0
    limited: str = ""
    note: str = ""
    worst: str = ""
    where: str = ""

    @property
    def status(self) -> str:
        """The verdict, with what limits it."""
        return f"{self.verdict.value} ({self.limited})" if self.limited else self.verdict.value

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
    bounds: Bounds = RULE,
) -> Record:
    """Compare the source's value of an output with ONNX Runtime's in the batch `kind`; `note` goes into the record.

    What is equal is decided by `onnx_sparse.comparison.difference`.

    Args:
        computed: Half-float types that the model computes with: a float32 result of these is only as exact as they are.
        magnitude: The output's magnitude over all batches (`magnitude_of`); if omitted, the largest value of `want`.
        floor: The rounding noise of the elements: differences up to it are allowed.
        bounds: What is allowed instead.
    """
    record = Record(output, dtype_name(want), want.shape, note=note)
    found = difference(want, got, computed, magnitude=magnitude, floor=floor, bounds=bounds)
    record = replace(
        record,
        max_abs=found.max_abs,
        max_rel=found.max_rel,
        rms=found.rms,
        elements=found.elements,
        tolerance=found.tolerance,
        noise=found.noise,
        worst=kind if found.max_abs > 0 else "",
        where=found.where if found.max_abs > 0 else "",
    )
    if not found.reason:
        return record
    most = f", most at {found.where}" if found.where else ""
    return replace(record, verdict=Verdict.DIFFERENT, note=f"{found.reason} in the batch {kind!r}{most}")


def merge(before: Record | None, after: Record) -> Record:
    """Merge the records of two batches of the same output."""
    if before is None:
        return after
    worse = after.max_abs > before.max_abs
    elements = before.elements + after.elements
    return replace(
        before,
        worst=after.worst if worse else before.worst,
        where=after.where if worse else before.where,
        max_abs=max(before.max_abs, after.max_abs),
        max_rel=max(before.max_rel, after.max_rel),
        rms=math.sqrt((before.elements * before.rms**2 + after.elements * after.rms**2) / max(elements, 1)),
        elements=elements,
        tolerance=after.tolerance if worse or not before.elements else before.tolerance,
        noise=max(before.noise, after.noise),
        explained=before.explained + after.explained,
        verdict=before.verdict if after.ok else after.verdict,
        batches=before.batches + after.batches,
        most_rows=max(before.most_rows, after.most_rows),
        note="; ".join(dict.fromkeys(filter(None, (*before.note.split("; "), after.note)))),
    )
