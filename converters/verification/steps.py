"""The steps of a verification of a model with states: the inputs of each, made of those of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.verification.batches import Refused
from onnx_sparse.converters.verification.comparison import Record, Verdict, merge

#: How often a model with states is run on a batch. Later steps read what several before them have left.
COUNT = 4

#: Runs steps, each on its inputs, from the states before the first run: the outputs of all steps.
Run = Callable[[Sequence[Mapping[str, Array]]], list[Array]]


class Steps:
    """Chooses the inputs of steps, and remembers by the sizes of a batch which input grows from step to step.

    An attention mask covers the tokens of all steps. Which input is one, the source tells: it refuses a second step
    with a mask of the first one's size.

    Args:
        count: The number of steps.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._growing: dict[tuple[Any, ...], tuple[str, int] | None] = {}

    def outputs(self, names: Mapping[str, str], presents: Sequence[str]) -> dict[str, str]:
        """The outputs of all steps with their element types, then the states after the last step."""
        found = {f"{step} {name}": dtype for step in range(self.count) for name, dtype in names.items()}
        return found | {f"{self.count - 1} {name}": "" for name in presents}

    def feeds(self, batch: Mapping[str, Array]) -> list[dict[str, Array]]:
        """The inputs of the steps of a batch that `run` has run."""
        return _feeds(batch, self._growing.get(_sizes(batch)), self.count)

    def run(self, batch: Mapping[str, Array], run: Run) -> list[Array]:
        """The outputs of all steps.

        Raises:
            Refused: The source refuses the batch, whichever input grows.
        """
        refusal: Refused | None = None
        known = dict.fromkeys(growing for growing in self._growing.values() if growing is not None)
        # What had to grow in another batch has to grow: with a mask of size 1 the plugin reads beyond its end instead.
        for growing in known or (None, *(_axes(batch) if self.count > 1 else ())):
            try:
                if growing is not None:
                    run(_feeds(batch, growing, 2))
                results = run(_feeds(batch, growing, self.count))
            except Refused as error:
                if growing is None and self.count > 1:
                    run(_feeds(batch, None, 1))  # if that is refused, too, nothing has to grow
                refusal = refusal or error
            else:
                self._growing[_sizes(batch)] = growing
                return results
        assert refusal is not None
        raise refusal


def of_outputs(records: Sequence[Record]) -> list[Record]:
    """One record per output for those of its steps, which have the number of the step before its name.

    What was compared in one step is compared; what differs in one step differs.
    """
    found: dict[str, Record] = {}
    for record in records:
        step, _, name = record.output.partition(" ")
        said = record.note if record.ok or step == "0" else f"in step {int(step) + 1}: {record.note}"
        record = replace(record, output=name, note=said)
        before = found.get(name)
        if before is None or (before.ok and record.verdict is Verdict.DIFFERENT):
            found[name] = record
        elif record.ok:
            found[name] = replace(merge(before, record), batches=max(before.batches, record.batches), note=before.note)
            if before.verdict is Verdict.NOT_COMPARED:
                found[name] = replace(found[name], verdict=record.verdict, note=record.note)
    return [*found.values()]


def _feeds(batch: Mapping[str, Array], growing: tuple[str, int] | None, count: int) -> list[dict[str, Array]]:
    steps = []
    for step in range(count):
        feeds = {name: _varied(array, step) for name, array in batch.items()}
        if growing is not None:
            name, axis = growing
            feeds[name] = np.concatenate([batch[name]] * (step + 1), axis)
        steps.append(feeds)
    return steps


def _varied(array: Array, step: int) -> Array:
    """Other values of the same sizes: elements change places, but not integers in order, which may have to be so."""
    flat = array.reshape(-1)
    if array.dtype.kind in "iu" and (flat[1:] >= flat[:-1]).all():
        return array
    return np.roll(flat, step).reshape(array.shape)


def _axes(batch: Mapping[str, Array]) -> Iterator[tuple[str, int]]:
    """The axes that may grow: the most likely ones first, which are the last ones of masks."""
    for name in sorted(batch, key=lambda name: "mask" not in name.lower()):
        for axis in reversed(range(batch[name].ndim)):
            if batch[name].size:
                yield name, axis


def _sizes(batch: Mapping[str, Array]) -> tuple[Any, ...]:
    return tuple((name, array.shape) for name, array in sorted(batch.items()))
