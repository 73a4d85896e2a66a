"""Facts about values that are found by trying: the texts that are numbers, and how features of messages form rows.

The model's operators say which tensor must be true, or refuse what is illegal; candidates are run up to there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations, islice, permutations, product
from typing import Any

import numpy as np

from onnx_sparse.converters.verification.dataflow import Origin
from onnx_sparse.converters.verification.example_messages import PARTITIONS, Partition
from onnx_sparse.converters.verification.sample_inputs import KINDS, Sampler
from onnx_sparse.rows.sample_rows import NUMBER_TEXTS

Array = np.ndarray[Any, Any]

#: Computes tensors of the model for the inputs of a batch; raises whatever ONNX Runtime raises.
Probe = Callable[[Sequence[str], Mapping[str, Array]], Sequence[Array]]

#: More combinations of partitions are not tried.
_MOST_COMBINATIONS = 400


def settle(sampler: Sampler, probe: Probe, seed: int) -> None:
    """Find what values an input must have, as far as the model's operators do not say it outright."""
    _settle_numbers(sampler, probe, seed)
    _settle_partitions(sampler, probe, seed)


def _settle_numbers(sampler: Sampler, probe: Probe, seed: int) -> None:
    constraints, texts = sampler.values_of.constraints, sampler.values_of.number_texts
    texts.update((origin, list(NUMBER_TEXTS[0])) for origin in constraints.numeric)
    for origin, checks in constraints.numeric.items():
        for candidate in _number_texts(constraints.separators.get(origin, ())):
            texts[origin] = list(candidate)
            if _passes(sampler, probe, checks, seed):
                break
        else:
            texts[origin] = list(NUMBER_TEXTS[0])


def _number_texts(separators: Sequence[str]) -> Iterator[Sequence[str]]:
    """Texts with numbers where they may be wanted: alone, in a date, or between what text is split at."""
    numbers = NUMBER_TEXTS[0]
    some = [separator for separator in separators if separator] or ([" "] if separators else [])
    for separator in some:
        yield tuple(separator.join(chosen) for chosen in (numbers[:3], numbers[1:3], numbers[::-1], numbers[:1]))
    for outer, inner in permutations(some, 2):
        pairs = [inner.join(pair) for pair in permutations(numbers[:3], 2)]
        yield tuple(outer.join(pairs[k : k + 3]) for k in range(3))
    for separator in some:  # of a fixed number of parts
        for count in (2, 3, 4, 5, 6, 8):
            yield tuple(separator.join(islice(chain(numbers[k:], numbers * 3), count)) for k in range(3))
    yield from NUMBER_TEXTS


def _settle_partitions(sampler: Sampler, probe: Probe, seed: int) -> None:
    """Settle each group of features that is checked together: by its checks, and if need be by the outputs."""
    constraints = sampler.values_of.constraints
    units = sorted({math.prod(some) for k in range(3) for some in combinations(constraints.units, k)})
    groups = []
    for group in _groups(constraints.partitions):
        checks = sorted({check for origin in group for check in constraints.partitions[origin]})
        likely = [_likely_kinds(constraints.stated.get(origin), is_checked=bool(checks)) for origin in group]
        every = [
            [Partition(kind, unit) for kind, unit in zip(kinds, chosen, strict=True)]
            for chosen in islice(product(units, repeat=len(group)), _MOST_COMBINATIONS)
            for kinds in islice(product(*likely), _MOST_COMBINATIONS)
        ][:_MOST_COMBINATIONS]
        unsettled = [Partition("values" if checks else kinds[0]) for kinds in likely]
        sampler.partitions.update(zip(group, unsettled, strict=True))
        passes = partial(_passes, sampler, probe, checks, seed)
        _choose(sampler, group, every, passes)
        groups.append((group, every, passes))
    for group, every, passes in groups:
        outputs = sorted({output for origin in group for output in constraints.outputs.get(origin, ())})
        are_made = partial(_passes, sampler, probe, outputs, seed, is_legal=False)
        if not are_made():
            _choose(sampler, group, every, partial(_both, passes, are_made))


def _both(one: Callable[[], bool], other: Callable[[], bool]) -> bool:
    return one() and other()


def _choose(
    sampler: Sampler, group: Sequence[Origin], every: Sequence[list[Partition]], passes: Callable[[], bool]
) -> None:
    """Let features be the first of some partitions with which values pass; as they are, if there are none."""
    before = {origin: sampler.partitions[origin] for origin in group}
    for partitions in every:
        sampler.partitions.update(zip(group, partitions, strict=True))
        if passes():
            return
    sampler.partitions.update(before)


def _likely_kinds(stated: str | None, *, is_checked: bool) -> Sequence[str]:
    """The kinds of partitions that a feature may be, the most likely first."""
    if not is_checked:  # nothing else tells one from the other
        return [stated or "values"]
    return sorted(PARTITIONS, key=lambda kind: kind != stated) if stated else [*PARTITIONS[1:], PARTITIONS[0]]


def _groups(partitions: Mapping[Origin, Sequence[str]]) -> list[list[Origin]]:
    """The features that are checked together."""
    groups: list[tuple[list[Origin], set[str]]] = []
    for origin, checks in partitions.items():
        joined: tuple[list[Origin], set[str]] = ([origin], set(checks))
        apart = []
        for members, known in groups:
            if known.isdisjoint(joined[1]):
                apart.append((members, known))
            else:
                joined = ([*members, *joined[0]], known | joined[1])
        groups = [*apart, joined]
    return [members for members, _ in groups]


def _passes(sampler: Sampler, probe: Probe, checks: Sequence[str], seed: int, *, is_legal: bool = True) -> bool:
    """Whether tensors can be computed for values as they are drawn now.

    Args:
        is_legal: Whether those that are checks must also hold: booleans that are true, row splits that ascend from 0.
    """
    try:
        for each in range(3):
            found = probe(checks, sampler.batch(KINDS[0], seed + each).feeds) if checks else ()
            if is_legal and not all(map(_holds, found)):
                return False
    except Exception:  # whatever ONNX Runtime raises: the values are refused
        return False
    return True


def _holds(found: Array) -> bool:
    value = np.asarray(found)
    if value.dtype == bool:
        return bool(value.all())
    splits = value.ravel()
    return value.dtype.kind != "i" or bool(splits[:1].sum() == 0 and (np.diff(splits) >= 0).all())
