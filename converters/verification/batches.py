"""The batches of a verification: the source and its model run on the same batches and their outputs are compared."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from onnx_sparse.comparison import RULE, Bounds, dtype_name, is_float, magnitude_of
from onnx_sparse.converters.errors import first_line
from onnx_sparse.converters.verification.comparison import Record, Verdict, compare, merge
from onnx_sparse.converters.verification.intended_differences import IntendedDifferences
from onnx_sparse.converters.verification.isolation import EndedError
from onnx_sparse.converters.verification.layout import GUESSED, ROWS, Axis, Layout
from onnx_sparse.converters.verification.number_ranges import find_ranges
from onnx_sparse.converters.verification.rounding_noise import RoundingNoise
from onnx_sparse.converters.verification.sample_inputs import (
    BEYOND_TABLES,
    GIVEN,
    KINDS,
    NO_ROWS,
    OF_MANY_VALUES,
    Batch,
    Sampler,
)
from onnx_sparse.converters.verification.solving import solve

Array = np.ndarray[Any, Any]

#: Runs the source on the inputs of a batch.
SourceRun = Callable[[str, Mapping[str, Array]], Sequence[Array]]
#: How often a model is run to see what is random: whole numbers of a small range may be the same twice.
_RANDOM_RUNS = 8

#: The most dimensions that are narrowed one by one.
_MOST_NARROWED = 8

#: More rows, or more batches, are not drawn in order to have every value at which answers may change.
_MOST_ROWS, _MOST_MORE = 64, 8

#: The lengths that are tried where shorter inputs are refused, or have no output: windows, multiples of a stride.
_LENGTHS = (2, 4, 8, 16, 32, 64, 96, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)

#: No longer than that: elements of all inputs together, in one batch and in all that are tried. They are counted, and
#: not timed, so that a verdict is the same on any machine.
_MOST_ELEMENTS, _MOST_ELEMENTS_TRIED = 1 << 24, 1 << 26

#: From more lengths sizes are not solved for.
_MOST_SOLVED = 8

#: An "ok" on fewer batches with rows says so.
_FEWEST_BATCHES = 3

#: What ONNX Runtime says where a window does not fit into its input, such as `running Conv node`.
_IN_WINDOW = re.compile(r"running \w*(Conv|Pool)\w* node")

#: For models that must be equal everywhere.
NO_DIFFERENCES = IntendedDifferences()


class Refused(Exception):  # noqa: N818 - a verdict on a batch, not a failure of the program
    """The source refuses a batch.

    Attributes:
        program: The program that refused it.
        place: The operator that did.
    """

    def __init__(self, program: str, reason: str, place: str = "") -> None:
        super().__init__(reason)
        self.program = program
        self.place = place


@dataclass(frozen=True)
class Repaired:
    """The outputs of a source whose program computes some of its nodes wrongly.

    Attributes:
        own: As the program computes them.
        right: With these nodes repaired.
        faults: What the program computes wrongly.
    """

    own: Sequence[Array]
    right: Sequence[Array]
    faults: str

    def instead_of(self, want: Array, position: int) -> Array:
        """The source's value of an output, with what is right where the repair changes it."""
        own, right = self.own[position], self.right[position]
        if not own.shape == right.shape == want.shape:
            return right if own.shape != right.shape else want
        same = (own == right) | ((own != own) & (right != right))  # NaN, too
        return np.where(same, want, right).astype(want.dtype)


@dataclass(frozen=True)
class Attempt:
    """What the source made of a batch: outputs, or a refusal.

    Attributes:
        is_narrow: Whether a dimension has a size below the ordinary one, of which nothing says that it is legal.
        is_short: Whether a size of an additional batch is less than the windows of the model need.
        is_again: Whether another batch has the same inputs in other places; it is compared, and not counted.
    """

    batch: Batch
    outputs: Sequence[Array] = ()
    refusal: Refused | None = None
    is_narrow: bool = False
    is_short: bool = False
    is_again: bool = False

    @property
    def is_compared(self) -> bool:
        """Whether there is something to compare: rows, and elements of an output."""
        return self.refusal is None and self.batch.has_rows and any(value.size for value in self.outputs)


def lacks(attempts: Sequence[Attempt]) -> bool:
    """Whether batches that have rows are refused, or nothing at all can be compared."""
    with_rows = [entry for entry in attempts if entry.batch.has_rows]
    return any(entry.refusal is not None for entry in with_rows) or not any(entry.is_compared for entry in with_rows)


class Attempts:
    """Finds batches that a source takes.

    Args:
        sampler: Makes batches.
        run_source: Returns the source's outputs for a batch; raises `Refused` if the source refuses it.
        seed: The same seed gives the same inputs.
        layout: What the source says about sizes.
    """

    def __init__(self, sampler: Sampler, run_source: SourceRun, seed: int, layout: Layout = GUESSED) -> None:
        self._sampler, self._run, self._seed = sampler, run_source, seed
        self._layout, self._careful = layout, False

    def of(self, batch: Batch) -> Attempt:
        """Run the source on a batch."""
        try:
            return Attempt(batch, self._run(batch.kind, batch.feeds))
        except Refused as refusal:
            return Attempt(batch, refusal=refusal)

    def some(self, count: int) -> list[Attempt]:
        """As many generated batches as `count`, of `KINDS` in turn, then larger ones, and then narrow and wide ones.

        What the source refuses is drawn again without values that are likely to be refused. Where there is nothing to
        compare, longer inputs are tried, and then the sizes are solved for. If the inputs are too short for all values
        at which answers may change, there are batches of more rows, or more batches. In the end each dimension of no
        known size is tried at 0, at 1 and longer. Of these additional batches, those that the source refuses do not
        count.
        """
        kinds = [(self._seed + k, KINDS[k % len(KINDS)]) for k in range(count)]
        attempts = [self._attempt(kind, seed, self._layout) for seed, kind in kinds]
        is_short = any(map(self._is_short, (entry.batch for entry in attempts if entry.batch.has_rows)))
        if is_short or lacks(attempts):
            some = (self._of_alike_rows(), self._in_ranges(), self._longer())
            for layout in (*some, self._solved(self._layout), self._solved_when_longer()):
                found = next(layout, None)
                if found is not None:
                    tried = [self._attempt(kind, seed, found) for seed, kind in kinds]
                    if compared_batches(tried) > compared_batches(attempts) - is_short:
                        attempts, self._layout = tried, found
                    if not lacks(attempts):
                        break
        if count < len(KINDS):
            return attempts
        attempts += [entry for entry in (*self._again(), *self._of_many_values()) if entry.refusal is None]
        odd = _odd_batches(self._sampler, self._seed, self._layout, careful=self._careful)
        more = (replace(self.of(batch), is_narrow=is_narrow) for batch, is_narrow in odd)
        taken = (entry for entry in more if entry.refusal is None)
        return attempts + [replace(entry, is_short=self._is_short(entry.batch)) for entry in taken]

    def of_rows(self, count: int | None) -> Attempt:
        """An ordinary batch of so many rows, or of a few if None, in the layout that was found so far.

        A model that states its number of rows, or that of its segments, gets that number.
        """
        layout = self._layout if count is None else self._layout.with_size(ROWS, count)
        return self._attempt(KINDS[0], self._seed, layout)

    def _again(self) -> Iterator[Attempt]:
        """An ordinary batch twice, the second time with its floats in other places: answers must not be the same."""
        first = self._sampler.batch(KINDS[0], self._seed, self._layout, careful=self._careful)
        floats = {name: np.roll(value, 1) for name, value in first.feeds.items() if is_float(value) and value.size > 1}
        if floats:
            moved = replace(first, kind="ordinary, with numbers in other places", feeds=first.feeds | floats)
            yield replace(self.of(moved), is_again=True)

    def _of_many_values(self) -> Iterator[Attempt]:
        """Batches that together are large enough for all values at which answers may change."""
        ordinary = self._sampler.batch(KINDS[0], self._seed, self._layout)
        times = math.ceil(self._sampler.lacking_values(ordinary))
        layout, rows = self._layout, (ordinary.sizes or {}).get(ROWS)
        more = min(2 * (times - 1), _MOST_MORE)  # what is drawn in one of them may be drawn again
        if more > 0 and rows:
            most = max(rows, _MOST_ELEMENTS * rows // max(sum(value.size for value in ordinary.feeds.values()), 1))
            layout = layout.with_size(ROWS, min(times * rows, _MOST_ROWS, most))
            more = 1
        if self._sampler.values_of.are_beyond_tables:
            yield self.of(self._sampler.batch(BEYOND_TABLES, self._seed, self._layout))
        for k in range(more):
            yield self._attempt(OF_MANY_VALUES, self._seed + len(KINDS) + k, layout)

    def _attempt(self, kind: str, seed: int, layout: Layout) -> Attempt:
        """Run the source on a generated batch; if it is refused, on a more careful one."""
        first = self.of(self._sampler.batch(kind, seed, layout))
        if first.refusal is None:
            return first
        careful = self.of(self._sampler.batch(kind, seed, layout, careful=True))
        self._careful = self._careful or careful.refusal is None
        return first if careful.refusal is not None else careful

    def _is_short(self, batch: Batch) -> bool:
        """Whether a dimension that is no rows is less than the windows of the model need."""
        least = max(self._sampler.values_of.constraints.least_sizes, default=0)
        sizes = batch.sizes or {}
        return any(size < least for axis, size in sizes.items() if axis != ROWS and not self._sampler.is_of_rows(axis))

    def _longer(self) -> Iterator[Layout]:
        """Layouts in which all open dimensions, first those that are no rows, are long enough for an output."""
        tried = 0
        ordinary = self._sampler.batch(KINDS[0], self._seed, self._layout)
        free = [axis for axis in ordinary.sizes or {} if not self._sampler.is_of_rows(axis)]
        flat = [value for value in ordinary.feeds.values() if value.ndim == 1]
        groups = [free] if free else []
        groups += [[*free, ROWS]] if flat and ROWS in (ordinary.sizes or {}) else []
        windows = self._sampler.values_of.constraints.least_sizes
        # First those into which every window fits: what TensorFlow's kernels return of less may be no answer.
        sizes = sorted({*_LENGTHS, *windows}, key=lambda size: (size < max(windows, default=0), size))
        for axes in groups:
            most = max(Counter(name for name, _ in axes).values())
            for size in sizes:
                if size**most > _MOST_ELEMENTS:
                    continue
                layout = self._layout
                for axis in axes:
                    layout = layout.with_size(axis, size)
                batch = self._sampler.batch(KINDS[0], self._seed, layout, careful=self._careful)
                elements = sum(value.size for value in batch.feeds.values())
                if (tried := tried + elements) > _MOST_ELEMENTS_TRIED:
                    break
                if elements > _MOST_ELEMENTS:
                    continue
                if self.of(batch).is_compared:
                    yield layout

    def _of_alike_rows(self) -> Iterator[Layout]:
        """The layout in which all inputs have as many rows, also those that are looked up like entries of rows.

        Not where an input may say which row an entry is in: rows of one entry each would show little of what is made
        of rows.
        """
        layout = self._layout
        for axis in self._sampler.columns():
            layout = layout.with_size(axis, ROWS)
        if layout != self._layout and self.of(self._sampler.batch(KINDS[0], self._seed, layout)).is_compared:
            yield layout

    def _in_ranges(self) -> Iterator[Layout]:
        """The layout with the ranges of floats that the source asserts."""

        def refusal(layout: Layout) -> str | None:
            refused = self.of(self._sampler.batch(KINDS[0], self._seed, layout)).refusal
            return None if refused is None else str(refused)

        origins = self._sampler.floats()
        found = find_ranges(self._layout, origins, refusal) if origins else None
        if found is not None and found != self._layout:
            yield found

    def _solved(self, known: Layout) -> Iterator[Layout]:
        """The layout that the source's messages lead to."""

        def refusal(batch: Batch) -> str | None:
            refused = self.of(batch).refusal
            return None if refused is None else f"{refused} {{{{{refused.place}}}}}"

        found = solve(self._sampler, self._seed, refusal, known)
        if found is not None:
            yield found

    def _solved_when_longer(self) -> Iterator[Layout]:
        """The layouts that messages lead to from a length of a dimension at which the source has another complaint."""
        tried = solved = 0
        ordinary = self._sampler.batch(KINDS[0], self._seed, self._layout)
        complaint = _complaint(self.of(ordinary))
        for axis in ordinary.sizes or {}:
            for size in () if self._sampler.is_of_rows(axis) else _LENGTHS:
                layout = self._layout.with_size(axis, size)
                batch = self._sampler.batch(KINDS[0], self._seed, layout)
                elements = sum(value.size for value in batch.feeds.values())
                tried += elements
                if elements > _MOST_ELEMENTS or tried > _MOST_ELEMENTS_TRIED or solved == _MOST_SOLVED:
                    break
                if _complaint(self.of(batch)) != complaint:
                    solved += 1
                    yield from self._solved(layout)


def _complaint(attempt: Attempt) -> str:
    """What a source says against a batch, whatever the numbers in it are."""
    return re.sub(r"\d+", "0", str(attempt.refusal or ""))


def _odd_batches(sampler: Sampler, seed: int, layout: Layout, *, careful: bool) -> Iterator[tuple[Batch, bool]]:
    """Ordinary batches but for one dimension, of size 0, 1 or longer; of many dimensions, all of them together.

    Returns:
        Each batch, and whether that dimension is shorter than ordinary ones.
    """
    ordinary = sampler.batch(KINDS[0], seed, layout, careful=careful)
    sizes = dict(ordinary.sizes or {})
    for axis in layout.sizes:  # what was found, but may be otherwise
        if isinstance(end := layout.ends_at(axis), int):
            sizes[axis] = end
    groups: dict[object, list[Axis]] = {}
    for axis in sizes:
        if axis != ROWS and not sampler.is_of_rows(axis):
            groups.setdefault(sampler.symbol(axis) or axis, []).append(axis)
    axes = [*groups.values()]
    together = len(axes) > _MOST_NARROWED
    if together:
        axes = [[axis for group in axes for axis in group]]
    for group in axes:
        name, place = group[0]
        where = f"dimension {place} of {name}" if len(axes) > 1 or len(group) == 1 else "its dimensions"
        now = sizes[group[0]]
        for size in (0, 1) if together else dict.fromkeys((0, 1, now + 2, 2 * now)):
            changed = layout
            for each in group:
                changed = changed.with_size(each, size)
            batch = sampler.batch(KINDS[0], seed, changed, careful=careful)
            if sum(value.size for value in batch.feeds.values()) <= _MOST_ELEMENTS:
                chosen = {**(batch.sizes or {}), **dict.fromkeys(group, size)}
                yield replace(batch, kind=f"ordinary, {where} of size {size}", sizes=chosen), size < now


def compared_batches(attempts: Sequence[Attempt]) -> int:
    """The number of batches of which something is compared."""
    return sum(entry.is_compared for entry in attempts)


def compare_batches(
    attempts: Sequence[Attempt],
    outputs: Mapping[str, str],
    run_model: Callable[[Mapping[str, Array]], Sequence[Array]],
    *,
    differences: IntendedDifferences = NO_DIFFERENCES,
    computed: Collection[str] = (),
    random: Collection[str] = (),
    source_checks: bool = True,
    guards: Callable[[Mapping[str, Array]], str] | None = None,
    repaired: Callable[[Mapping[str, Array]], Repaired | None] | None = None,
    noise: RoundingNoise | None = None,
    bounds: Bounds = RULE,
) -> list[Record]:
    """Compare source and model on all batches: one record per output.

    Args:
        attempts: What the source made of the batches.
        outputs: The outputs' element types by name, as far as they are known without a run.
        run_model: Returns the model's outputs for a batch; any exception counts as a difference, but for batches with
            rows of which the source makes outputs without elements.
        differences: Which differences are meant.
        computed: The names of the half-float types that the model computes with.
        random: The outputs whose values may be random: where another run gives others, only their types and shapes are
            compared.
        source_checks: Whether the source refuses sizes that are too small, and ids without a row. Of one that computes
            something with them, batches of no rows, of another dimension of size 0 or 1, or of such ids do not count
            that the model refuses, that have no elements, or of which it makes outputs of other shapes.
        repaired: The source's outputs for a batch without what its program computes wrongly.
        guards: Why what was converted refuses a batch that the source takes, or empty text.
        noise: Measures the rounding noise of outputs that differ by more than their tolerances.
        bounds: What is allowed instead of the tolerances and of the noise.
    """
    records: dict[str, Record] = {}
    taken = [attempt.outputs for attempt in attempts if attempt.refusal is None]
    magnitudes = [
        magnitude_of(values) if all(map(is_float, values)) else np.zeros(()) for values in zip(*taken, strict=True)
    ]
    notes = _refusals(attempts)
    for attempt in attempts:
        if attempt.refusal is not None:
            continue
        batch, expected = attempt.batch, attempt.outputs
        is_of_no_rows = batch.kind == NO_ROWS and not batch.has_rows
        is_unchecked = not source_checks and (attempt.is_narrow or is_of_no_rows or batch.kind == BEYOND_TABLES)
        try:
            actual = run_model(batch.feeds)
        except Exception as error:  # whatever ONNX Runtime raises
            ended = isinstance(error, EndedError)
            note = f"ONNX Runtime {'ends on' if ended else 'refuses'} the batch {batch.kind!r}: {first_line(error)}"
            if attempt.is_short and not ended and _IN_WINDOW.search(str(error)):
                continue
            if is_unchecked and not ended:
                notes.extend([] if attempt.is_narrow else [note])
                continue
            if batch.has_rows and not ended and not any(value.size for value in expected):
                notes.append(f"{note}; the source's outputs are empty there")
                continue
            if guards is not None and not ended and (guard := guards(batch.feeds)):
                notes.append(f"{note}; so does the traced program: {guard}")
                continue
            pairs = zip(outputs, expected, strict=True)
            found = [
                Record(name, dtype_name(want), want.shape, verdict=Verdict.DIFFERENT, note=note) for name, want in pairs
            ]
        else:
            found = []
            # Dropout, say, is random only where the model is told to train.
            others = [run_model(batch.feeds) for _ in range(_RANDOM_RUNS if random else 0)]
            floors: list[Array] | None = None
            for k, (name, want, got) in enumerate(zip(outputs, expected, actual, strict=True)):
                is_random = name in random and not all(compare(name, got, o[k], batch.kind).ok for o in others)
                if is_random and (want.dtype, want.shape) == (got.dtype, got.shape):
                    got = want
                explained = differences.explain(name, want, got, batch.feeds)
                compared = explained.want, explained.got
                magnitude = magnitudes[k] if is_float(want) and explained.want.shape == want.shape else None
                judge = partial(
                    compare, name, *compared, batch.kind, explained.note, computed, magnitude=magnitude, bounds=bounds
                )
                record = judge()
                if (
                    not record.ok
                    and noise is not None
                    and not bounds.are_numbers
                    and is_float(want)
                    and want.shape == got.shape
                ):
                    if floors is None:
                        floors = noise.of(batch.feeds, expected, actual, magnitudes)
                    record = judge(floor=floors[k])
                if not record.ok and repaired is not None and (right := _right(repaired, batch.feeds)) is not None:
                    said = f"the source's program computes it wrongly ({right.faults}): compared with the right values"
                    floor = floors[k] if floors is not None else 0.0
                    truth = right.instead_of(want, k)
                    judged = compare(
                        name, truth, got, batch.kind, said, computed, magnitude=magnitude, floor=floor, bounds=bounds
                    )
                    record = judged if judged.ok else record
                compares = batch.has_rows and not attempt.is_again and want.size > explained.count and not is_random
                rows = batch.rows if compares else 0
                found.append(replace(record, batches=int(compares), most_rows=rows, explained=explained.count))
            if is_unchecked and not all(record.ok for record in found):
                shapes = zip(expected, actual, strict=True)
                if not batch.has_rows or any(want.shape != got.shape for want, got in shapes):
                    notes.append(f"the batch {batch.kind!r} differs, but the source does not check its sizes")
                    continue
        for record in found:
            records[record.output] = merge(records.get(record.output), record)
    if not records:
        verdict = Verdict.REFUSED if notes else Verdict.NOT_COMPARED
        return [Record(name, dtype, (), verdict=verdict, note="; ".join(notes)) for name, dtype in outputs.items()]
    return [_judged(record, attempts, notes, record.output in random) for record in records.values()]


def _right(repaired: Callable[[Mapping[str, Array]], Repaired | None], feeds: Mapping[str, Array]) -> Repaired | None:
    try:
        return repaired(feeds)
    except Exception:  # whatever programs raise: then nothing is right but the source's own
        return None


def _judged(record: Record, attempts: Sequence[Attempt], notes: Sequence[str], is_random: bool) -> Record:
    """The record of an output after all batches: without anything to compare, it is not equal."""
    noise = (
        f"rounding noise of {record.noise:.1g}, measured by moving inputs and weights by their last digit, is allowed"
    )
    said = [record.note, noise if record.noise and record.ok else "", *notes]
    if record.ok and is_random and not record.batches:
        why = "random values: only types and shapes are compared, and equal"
        return replace(record, verdict=Verdict.RANDOM, note="; ".join(filter(None, (why, *said))))
    if record.ok and not record.batches:
        always_empty = any(a.refusal is None and a.batch.has_rows for a in attempts)
        why = "the output is empty in every batch" if always_empty else "no batch with rows was compared"
        return replace(record, verdict=Verdict.NOT_COMPARED, note="; ".join(filter(None, (why, *said))))
    limited = "" if not record.ok or any(a.batch.kind == GIVEN for a in attempts) else _limited(record)
    return replace(record, limited=limited, note="; ".join(filter(None, said)))


def _limited(record: Record) -> str:
    """Why the equality of an output says less than usual; empty if it does not."""
    if record.batches < _FEWEST_BATCHES:
        rows = f"{record.most_rows} row{'s' * (record.most_rows != 1)}"
        return f"{record.batches} batch{'es' * (record.batches > 1)} of up to {rows}"
    return "no batch of several rows" if record.most_rows < 2 else ""


def _refusals(attempts: Sequence[Attempt]) -> list[str]:
    """What the source refuses, with each of its reasons once."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for attempt in attempts:
        if attempt.refusal is not None:
            named = kinds.setdefault((attempt.refusal.program, str(attempt.refusal)), [])
            if attempt.batch.kind not in named:
                named.append(attempt.batch.kind)
    return [
        f"{program} refuses the batch{'es' * (len(named) > 1)} {', '.join(map(repr, named))}: {reason}"
        for (program, reason), named in kinds.items()
    ]
