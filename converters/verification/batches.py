"""The batches of a verification: the source and its model run on the same batches and their outputs are compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.verification.comparison import Record, Verdict, compare, dtype_name, merge
from onnx_sparse.converters.verification.isolation import EndedError
from onnx_sparse.converters.verification.layout import GUESSED, Axis, Layout
from onnx_sparse.converters.verification.sample_inputs import KINDS, NOTHING_SAID, Batch, CompositeSpecs, Sampler
from onnx_sparse.converters.verification.solving import solve

Array = np.ndarray[Any, Any]

#: Runs the source on the inputs of a batch.
SourceRun = Callable[[str, Mapping[str, Array]], Sequence[Array]]


#: The most dimensions that are narrowed one by one.
_MOST_NARROWED = 8


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
class Attempt:
    """What the source made of a batch: outputs, or a refusal."""

    batch: Batch
    outputs: Sequence[Array] = ()
    refusal: Refused | None = None


def attempt_batches(
    model: ModelProto,
    inputs: Sequence[str],
    run_source: SourceRun,
    *,
    feeds: Mapping[str, Array] | None,
    seed: int,
    count: int,
    specs: CompositeSpecs = NOTHING_SAID,
    layout: Layout = GUESSED,
) -> list[Attempt]:
    """Run the source on the given inputs, or on as many generated batches as `count`, of `KINDS` in turn.

    If the source refuses generated batches that have rows, the sizes of the inputs are solved for. Then each dimension
    of no known size is tried at 0 and at 1; of these batches, those that the source refuses do not count.

    Args:
        model: The model whose operators say what the inputs are for.
        inputs: The names of the inputs.
        run_source: Returns the source's outputs for a batch; raises `Refused` if the source refuses it.
        feeds: The inputs of a single batch, if they are given.
        seed: The same seed gives the same inputs.
        count: How many batches to generate.
        specs: What the source says about sparse and ragged tensors.
        layout: What the source says about sizes.

    Raises:
        ConversionError: `feeds` lacks an input.
    """

    def attempt(batch: Batch) -> Attempt:
        try:
            return Attempt(batch, run_source(batch.kind, batch.feeds))
        except Refused as refusal:
            return Attempt(batch, refusal=refusal)

    def refusal(batch: Batch) -> str | None:
        refused = attempt(batch).refusal
        return None if refused is None else f"{refused} {{{{{refused.place}}}}}"

    if feeds is not None:
        if missing := [name for name in inputs if name not in feeds]:
            raise ConversionError(f"no value is given for input {', '.join(missing)}")
        return [attempt(Batch("given", dict(feeds)))]
    kinds = [(seed + k, KINDS[k % len(KINDS)]) for k in range(count)]
    sampler = Sampler(model, specs)
    attempts = [attempt(sampler.batch(kind, seed, layout)) for seed, kind in kinds]
    found: Layout | None = layout
    if _compared(attempts) < sum(entry.batch.has_rows for entry in attempts):
        found = solve(sampler, seed, refusal, layout)
        if found is not None:
            solved = [attempt(sampler.batch(kind, seed, found)) for seed, kind in kinds]
            attempts = max(attempts, solved, key=_compared)
    narrow = map(attempt, _narrow_batches(sampler, seed, found or layout)) if count >= len(KINDS) else ()
    return attempts + [entry for entry in narrow if entry.refusal is None]


def _narrow_batches(sampler: Sampler, seed: int, layout: Layout) -> Iterator[Batch]:
    """Ordinary batches but for one dimension, of size 0 or 1; of many dimensions, all of them together."""
    ordinary = sampler.batch(KINDS[0], seed, layout)
    groups: dict[object, list[Axis]] = {}
    for axis in ordinary.sizes or {}:
        if not sampler.is_of_rows(axis):
            groups.setdefault(sampler.symbol(axis) or axis, []).append(axis)
    axes = [*groups.values()]
    if len(axes) > _MOST_NARROWED:
        axes = [[axis for group in axes for axis in group]]
    for group in axes:
        name, place = group[0]
        where = f"dimension {place} of {name}" if len(axes) > 1 or len(group) == 1 else "its dimensions"
        for size in (0, 1):
            narrowed = layout
            for each in group:
                narrowed = narrowed.with_size(each, size)
            yield replace(sampler.batch(KINDS[0], seed, narrowed), kind=f"ordinary, {where} of size {size}")


def _compared(attempts: Sequence[Attempt]) -> int:
    """The number of batches with rows that the source does not refuse."""
    return sum(entry.batch.has_rows and entry.refusal is None for entry in attempts)


def compare_batches(
    attempts: Sequence[Attempt],
    outputs: Mapping[str, str],
    run_model: Callable[[Mapping[str, Array]], Sequence[Array]],
    *,
    intended_differences: Callable[[Array, Array, Mapping[str, Array]], tuple[Array, Array, str]] | None = None,
    computed: Collection[str] = (),
    random: Collection[str] = (),
) -> list[Record]:
    """Compare source and model on all batches: one record per output.

    Args:
        attempts: What the source made of the batches.
        outputs: The outputs' element types by name, as far as they are known without a run.
        run_model: Returns the model's outputs for a batch; any exception counts as a difference.
        intended_differences: Makes values equal that differ on purpose, and returns a note on it.
        computed: The names of the half-float types that the model computes with.
        random: The outputs whose values are random: only their types and shapes are compared.
    """
    records: dict[str, Record] = {}
    for attempt in attempts:
        if attempt.refusal is not None:
            continue
        batch, expected = attempt.batch, attempt.outputs
        try:
            actual = run_model(batch.feeds)
        except Exception as error:  # whatever ONNX Runtime raises
            ended = isinstance(error, EndedError)
            note = f"ONNX Runtime {'ends on' if ended else 'refuses'} the batch {batch.kind!r}: {first_line(error)}"
            pairs = zip(outputs, expected, strict=True)
            found = [
                Record(name, dtype_name(want), want.shape, verdict=Verdict.DIFFERENT, note=note) for name, want in pairs
            ]
        else:
            found = []
            for name, want, got in zip(outputs, expected, actual, strict=True):
                note, is_random = "", name in random
                if is_random and (want.dtype, want.shape) == (got.dtype, got.shape):
                    got = want
                if intended_differences is not None:
                    want, got, note = intended_differences(want, got, batch.feeds)
                record = compare(name, want, got, batch.kind, note, computed)
                found.append(replace(record, batches=int(batch.has_rows and want.size > 0 and not is_random)))
        for record in found:
            records[record.output] = merge(records.get(record.output), record)
    notes = _refusals(attempts)
    if not records:
        verdict = Verdict.REFUSED if notes else Verdict.NOT_COMPARED
        return [Record(name, dtype, (), verdict=verdict, note="; ".join(notes)) for name, dtype in outputs.items()]
    return [_judged(record, attempts, notes, record.output in random) for record in records.values()]


def _judged(record: Record, attempts: Sequence[Attempt], notes: Sequence[str], is_random: bool) -> Record:
    """The record of an output after all batches: without anything to compare, it is not equal."""
    said = [record.note, *notes]
    if record.ok and is_random:
        why = "random values are not compared; their types and shapes are equal"
        return replace(record, verdict=Verdict.RANDOM, note="; ".join(filter(None, (why, *said))))
    if record.ok and not record.batches:
        always_empty = any(a.refusal is None and a.batch.has_rows for a in attempts)
        why = "the output is empty in every batch" if always_empty else "no batch with rows was compared"
        return replace(record, verdict=Verdict.NOT_COMPARED, note="; ".join(filter(None, (why, *said))))
    return replace(record, note="; ".join(filter(None, said)))


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
