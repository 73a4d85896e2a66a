"""The characters of Unicode's properties, and which differ in case only, as RE2 knows them.

`unicode_classes.txt` has a line for each property: its name, and its ranges of characters in hexadecimal. Lines without
a name have characters that match each other where case is ignored. `python -m tests.support.unicode_classes` writes
the file from the RE2 of an installed TensorFlow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.resources import files

LAST_CHARACTER = 0x10FFFF

#: First and last characters, in order; no two ranges touch.
Ranges = tuple[tuple[int, int], ...]


@cache
def _table() -> tuple[dict[str, Ranges], dict[int, tuple[int, ...]]]:
    """The ranges of properties by name, and the characters that differ in case only from one, itself among them."""
    properties: dict[str, Ranges] = {}
    cases: dict[int, tuple[int, ...]] = {}
    for line in files(__package__).joinpath("unicode_classes.txt").read_text("utf-8").splitlines():
        first, *others = line.split()
        if first[0].isupper():
            bounds = (text.partition("-") for text in others)
            properties[first] = tuple((int(low, 16), int(high or low, 16)) for low, _, high in bounds)
        else:
            orbit = tuple(int(text, 16) for text in (first, *others))
            cases.update(dict.fromkeys(orbit, orbit))
    return properties, cases


@cache
def property_ranges(name: str) -> Ranges | None:
    """The characters of a general category, a group of categories (`L`), a script or `Any`; None if RE2 has no such."""
    properties, _ = _table()
    if name == "Any":
        return ((0, LAST_CHARACTER),)
    if name in properties:
        return properties[name]
    parts = [ranges for key, ranges in properties.items() if len(name) == 1 and len(key) == 2 and key[0] == name]
    return merged(item for ranges in parts for item in ranges) if parts else None


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The ranges in order, with those that touch as one."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


@lru_cache(1 << 8)
def complement(ranges: Ranges) -> Ranges:
    """The characters between merged ranges."""
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), LAST_CHARACTER]
    return tuple((first, last) for first, last in zip(starts, ends, strict=True) if first <= last)


@lru_cache(1 << 8)
def in_every_case(ranges: Ranges) -> Ranges:
    """The ranges with the characters that differ from theirs in case only."""
    _, cases = _table()
    numbers = _cased()
    others: set[int] = set()
    for first, last in ranges:
        for number in numbers[bisect_right(numbers, first - 1) : bisect_right(numbers, last)]:
            others.update(cases[number])
    return merged([*ranges, *((number, number) for number in others)])


@cache
def _cased() -> tuple[int, ...]:
    return tuple(sorted(_table()[1]))
