"""The batches of a verification: the source and its model run on the same batches and their outputs are compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.verification.comparison import Record, compare, dtype_name, merge
from onnx_sparse.converters.verification.sample_inputs import KINDS, NOTHING_SAID, CompositeSpecs, sample

Array = np.ndarray[Any, Any]
Batch = dict[str, Array]


class Refused(Exception):  # noqa: N818 - a verdict on a batch, not a failure of the program
    """The source refuses a batch; the message says which program refused it, and why."""


def make_batches(
    model: ModelProto,
    inputs: Sequence[str],
    *,
    feeds: Mapping[str, Array] | None,
    seed: int,
    count: int,
    specs: CompositeSpecs = NOTHING_SAID,
) -> list[tuple[str, Batch]]:
    """The batches with their names: the given one, or as many as `count`, of `KINDS` in turn.

    Raises:
        ConversionError: `feeds` lacks an input.
    """
    if feeds is None:
        kinds = [KINDS[k % len(KINDS)] for k in range(count)]
        return [(kind, sample(model, seed=seed + k, kind=kind, specs=specs)) for k, kind in enumerate(kinds)]
    if missing := [name for name in inputs if name not in feeds]:
        raise ConversionError(f"no value is given for input {', '.join(missing)}")
    return [("given", dict(feeds))]


def compare_batches(
    batches: Iterable[tuple[str, Batch]],
    outputs: Mapping[str, str],
    run_source: Callable[[str, Batch], Sequence[Array]],
    run_model: Callable[[Batch], Sequence[Array]],
    *,
    intended_differences: Callable[[Array, Array, Batch], tuple[Array, Array, str]] | None = None,
    untried: Sequence[str] = (),
    computed: Collection[str] = (),
) -> list[Record]:
    """Compare source and model on all batches: one record per output.

    Args:
        batches: The batches with their names.
        outputs: The outputs' element types by name, as far as they are known without a run.
        run_source: Returns the source's outputs for a batch; raises `Refused` if the source refuses it.
        run_model: Returns the model's outputs for a batch; any exception counts as a difference.
        intended_differences: Makes values equal that differ on purpose, and returns a note on it.
        untried: Reasons why some batches were left out.
        computed: The names of the half-float types that the model computes with.
    """
    records: dict[str, Record] = {}
    skipped = [*untried]
    for kind, batch in batches:
        try:
            expected = run_source(kind, batch)
        except Refused as reason:
            skipped.append(str(reason))
            continue
        try:
            actual = run_model(batch)
        except Exception as error:  # whatever ONNX Runtime raises
            note = f"ONNX Runtime refuses the batch {kind!r}: {first_line(error)}"
            pairs = zip(outputs, expected, strict=True)
            found = [Record(name, dtype_name(want), want.shape, ok=False, note=note) for name, want in pairs]
        else:
            found = []
            for name, want, got in zip(outputs, expected, actual, strict=True):
                note = ""
                if intended_differences is not None:
                    want, got, note = intended_differences(want, got, batch)
                found.append(compare(name, want, got, kind, note, computed))
        for record in found:
            records[record.output] = merge(records.get(record.output), record)
    note = "; ".join(skipped)
    if not records:
        return [Record(name, dtype, (), ok=False, note=note) for name, dtype in outputs.items()]
    return [replace(record, note="; ".join(filter(None, (record.note, note)))) for record in records.values()]
