"""Tests that run in part by day and whole at night, with `--whole`.

`@pytest.mark.pairwise` on a test of several parameters: by day, cases are left out as long as every two values of
different parameters are in one that stays. `@pytest.mark.one_of(4)` on a test or some of its cases: by day, one of four
of these runs. A test that takes the fixture `one_of` asks for that number: `one_of(4)` is 4 by day and 1 at night.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest


def split(items: Sequence[pytest.Item], *, whole: bool) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that run and those that are left out; at night, these are all that run whole by day, too."""
    left = _beyond_pairs(items) | _beyond_one_of(items)
    if whole:
        left = {item for item in items if not _is_in_part(item)}
    return [item for item in items if item not in left], [item for item in items if item in left]


def _is_in_part(item: pytest.Item) -> bool:
    is_marked = any(item.get_closest_marker(name) for name in ("pairwise", "one_of"))
    return is_marked or "one_of" in getattr(item, "fixturenames", ())


def _marked(items: Sequence[pytest.Item], mark: str) -> Iterator[list[pytest.Item]]:
    """The marked cases of each test."""
    marked = [item for item in items if item.get_closest_marker(mark)]
    for _, cases in itertools.groupby(marked, key=lambda item: item.nodeid.partition("[")[0]):
        yield list(cases)


def _beyond_one_of(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The cases that others stand for."""
    left: set[pytest.Item] = set()
    for cases in _marked(items, "one_of"):
        mark = cases[0].get_closest_marker("one_of")
        left |= set(cases) - set(cases[:: mark.args[0]] if mark else cases)
    return left


def _beyond_pairs(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The cases of pairwise tests whose pairs of values others have."""
    left: set[pytest.Item] = set()
    for cases in _marked(items, "pairwise"):
        pairs = {case: {*itertools.combinations(_values(case), 2)} for case in cases}
        missing = set().union(*pairs.values())
        while missing:
            best = max(pairs, key=lambda case: len(pairs[case] & missing))
            missing -= pairs.pop(best)
        left |= pairs.keys()
    return left


def _values(item: Any) -> list[tuple[str, int]]:
    """The parameters of a case with the identities of their values, which all cases share."""
    return [(name, id(value)) for name, value in item.callspec.params.items()]
