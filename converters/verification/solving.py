"""Solving for the sizes of inputs: when the source refuses a batch, its message names the sizes that do not fit.

A probe is a batch in which no two dimensions that may differ have the same size. "In[0]: [13,41], In[1]: [16,8]" then
says that the dimension of size 41 should be 16, and "Incompatible shapes: [13,41] vs. [13,43]" that two are the same.
What a message leaves open is tried.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, pairwise, permutations

from onnx_sparse.converters.verification.layout import GUESSED, ROWS, Axis, Layout, Size
from onnx_sparse.converters.verification.sample_inputs import PROBE, Batch, Sampler

#: More probes are not sent: a source that is so hard to please needs inputs of its user. Probes are counted, and not
#: timed, so that a verdict is the same on any machine.
_MOST_PROBES = 80

#: Sizes above this are not believed.
_LARGEST = 1 << 16

#: Names of nodes, in which numbers mean nothing; the names of MatMul's inputs, which have brackets; floats.
_MEANINGLESS = re.compile(r"\{\{.*?\}\}|In\[\d\]|\[Op:.*?\]|(?<!\w)[A-Za-z_][\w/]*|\d+\.\d+")

_NUMBER = re.compile(r"(?<![\d.])\d+")
_SHAPE = re.compile(r"\[((?:\d+,\s*)*\d+)\]")

#: How unlikely a change is: more than the best one.
_NOT_PAIRED, _ROW_COUNT, _PART, _UNNAMED = 4, 12, 2, 20


def solve(
    sampler: Sampler, seed: int, refusal: Callable[[Batch], str | None], known: Layout = GUESSED
) -> Layout | None:
    """A layout of the inputs that the source accepts.

    Args:
        sampler: Makes the batches.
        seed: The same seed gives the same probes.
        refusal: Runs the source; returns its message if it refuses a batch.
        known: What the source says about sizes.

    Returns:
        The layout, or None if none is found.
    """
    order = count()
    queue: list[tuple[int, int, Layout]] = [(0, next(order), replace(known, distinct=True))]
    seen: list[Layout] = []
    complaints: set[str] = set()
    for _ in range(_MOST_PROBES):
        if not queue:
            return None
        cost, _, layout = heapq.heappop(queue)
        batch = sampler.batch(PROBE, seed, layout)
        message = refusal(batch)
        if message is None:
            return layout
        # A complaint that is new is progress, so what follows from it is tried first.
        complaint = re.sub(r"\d+", "0", message)
        base = cost // 2 if complaint not in complaints else cost
        complaints.add(complaint)
        for unlikeliness, changed in _changes(batch, layout, _MEANINGLESS.sub(" ", message)):
            if changed not in seen:
                seen.append(changed)
                heapq.heappush(queue, (base + unlikeliness, -next(order), changed))
    return None


def _changes(batch: Batch, layout: Layout, message: str) -> Iterator[tuple[int, Layout]]:
    """What a message suggests, each with how unlikely it is."""
    sizes = batch.sizes or {}
    rows = sizes.get(ROWS)
    axes: dict[int, list[Axis]] = {}
    for axis, size in sizes.items():
        axes.setdefault(size, []).append(axis)
    # A 0 or 1 is more often an axis or a remark than a size.
    numbers = [n for n in dict.fromkeys(map(int, _NUMBER.findall(message))) if 1 < n <= _LARGEST]
    paired = _pairs(message)

    def resized(axis: Axis, size: int | Axis) -> Layout | None:
        if layout.ends_at(axis) != axis or (not isinstance(size, int) and layout.ends_at(size) == axis):
            return None
        return layout.with_size(axis, size)

    for number, wanted in [*paired, *permutations(numbers, 2)]:
        unlikely = 0 if (number, wanted) in paired else _NOT_PAIRED
        for axis, size in sizes.items():
            own = unlikely + (_ROW_COUNT if size == rows else 0)
            for part, new in _new_sizes(number, wanted, size):
                changed = resized(axis, _as_size(new, axes)) if 0 < new <= _LARGEST else None
                if changed is not None:
                    yield own + part, changed
    for name in sorted(batch.free_ids):
        values = set(batch.feeds[name].ravel().tolist())
        for bound in numbers:
            named = any(value >= bound for value in values.intersection(numbers))
            yield 1 if named else _UNNAMED, layout.with_bound(name, _as_size(bound, axes))
    for axis, size in sizes.items():  # one that is the same as in another input, which the message does not name
        if size != rows and (size in numbers or not numbers):
            others = [ROWS] if axis[1] == 0 else [other for other in sizes if other[1] == axis[1] and other != axis]
            for other in others:
                changed = resized(axis, other)
                if changed is not None:
                    yield _UNNAMED, changed


def _pairs(message: str) -> list[tuple[int, int]]:
    """The sizes that a message contrasts, in both orders."""
    shapes = [[int(size) for size in text.split(",")] for text in _SHAPE.findall(message)]
    found = [tuple(map(int, pair)) for pair in re.findall(r"(\d+) (?:vs\.?|!=|and) (\d+)", message)]
    for one, other in pairwise(shapes):
        if len(other) > 1:
            found.append((one[-1], other[-2]))  # what a product sums over
        found += zip(reversed(one), reversed(other), strict=False)
        found += zip(one, other, strict=False)
    unequal = [(one, other) for one, other in found if one != other]
    return list(dict.fromkeys([*unequal, *((other, one) for one, other in unequal)]))


def _new_sizes(number: int, wanted: int, size: int) -> Iterator[tuple[int, int]]:
    """The sizes by which a number that a dimension is part of would be the wanted one, each with how unlikely it is."""
    if number == size:
        yield 0, wanted
    elif size > 1 and number > size and number % size == 0:
        others = number // size
        if wanted % others == 0:
            yield 1, wanted // others
        yield _PART, wanted
    elif number > size:  # a sum
        yield _PART + 1, size + wanted - number
        yield _PART + 2, wanted // 2


def _as_size(number: int, axes: dict[int, list[Axis]]) -> Size:
    """The dimension that has a size, or the number itself."""
    same = axes.get(number)
    return number if same is None else ROWS if ROWS in same else same[0]
