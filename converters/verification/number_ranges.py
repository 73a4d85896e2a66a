"""Ranges of floats that a source asserts, and that the converted model does not check: found from what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import count, pairwise

from onnx_sparse.converters.verification.dataflow import Origin
from onnx_sparse.converters.verification.layout import Layout

#: More ranges are not tried. They are counted, and not timed, so that a verdict is the same on any machine.
_MOST_TRIES = 400

#: More numbers of a message are not taken for limits.
_MOST_NAMED = 4

#: Probabilities and other positive numbers, cosines, and negative numbers.
_RANGES = ((0.0, 1.0), (-1.0, 0.0), (1.0, 2.0), (-1.0, 1.0))

_NUMBER = re.compile(r"(?<![\w.:])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w:])")
_ASSERTION = re.compile(r"assert|condition", re.IGNORECASE)


def find_ranges(layout: Layout, origins: Sequence[Origin], refusal: Callable[[Layout], str | None]) -> Layout | None:
    """A layout with ranges in which the source takes numbers.

    Args:
        layout: The sizes.
        origins: The inputs and features that are floats.
        refusal: Runs the source on numbers of a layout; returns its message if it refuses them.

    Returns:
        The layout, or None if none is found.
    """
    tries = count()

    def satisfied(layout: Layout, known: Set[str], named: Set[float]) -> Layout | None:
        message = refusal(layout)
        if message is None:
            return layout
        complaint = _NUMBER.sub("0", message)
        if complaint in known or not _ASSERTION.search(message) or next(tries) >= _MOST_TRIES:
            return None
        # After the numbers that are refused come those that they are compared with.
        named = named | {float(number) for number in _NUMBER.findall(message.rpartition("[y ")[2])[:_MOST_NAMED]}
        for changed in _changes(layout, origins, sorted(named)):  # another complaint is one assertion less
            found = satisfied(changed, known | {complaint}, named)
            if found is not None:
                return found
        return None

    return satisfied(layout, frozenset(), frozenset())


def _changes(layout: Layout, origins: Sequence[Origin], named: Sequence[float]) -> Iterator[Layout]:
    """The layout with another range of all numbers, or of those of one input."""
    near = [(low, high) for n in named for low, high in ((n, n + abs(n)), (n - abs(n), n))]
    groups = [origins, *([origin] for origin in origins)] if len(origins) > 1 else [origins]
    for group in groups:
        for low, high in dict.fromkeys((*pairwise(named), *_RANGES, *near)):
            changed = layout
            for origin in group:
                changed = changed.with_range(origin, (low, high))
            if low < high and changed != layout:
                yield changed
