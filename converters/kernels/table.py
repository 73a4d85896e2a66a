"""The table of what ONNX Runtime's CPU kernels lack, by version.

A line names a subject, what of it is lacking, and the versions: `Where 16 T: bool int8: 1.21-1.30`. The subject is an
operator with a type variable and the operator set of the model, or with what else its kernels depend on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).with_name("kernel_limits.txt")
#: The subject of the lines with the highest operator set of each version.
_OPSETS = "operator set"

#: What stands before a type that is taken only if all variables that may have it do.
MIXED = "mixed-"

#: For each subject, and each thing that is lacking of it, the versions that lack it.
Lacking = Mapping[str, Mapping[str, frozenset[str]]]


def lacking(subject: str, opset: int = 0) -> Mapping[str, bool]:
    """What a version lacks of a subject.

    Args:
        subject: The subject, without an operator set.
        opset: The operator set, if the subject has one.

    Returns:
        For each thing that is lacking, whether every version lacks it.
    """
    return _judged(subject, min(opset, max(_probed().values())))


def operators() -> set[str]:
    """The operators that lack some element type."""
    return {subject.split()[0] for subject in _read() if ", opset " in subject}


@cache
def _judged(subject: str, opset: int) -> dict[str, bool]:
    versions = {version for version, highest in _probed().items() if highest >= opset}
    found = _read().get(f"{subject}, opset {opset}" if opset else subject, {})
    return {thing: where >= versions for thing, where in found.items()}


@cache
def _probed() -> dict[str, int]:
    return probed()


@cache
def _read() -> Lacking:
    return read()


def probed() -> dict[str, int]:
    """The versions that were probed, and their highest operator sets."""
    return {version: int(opset) for opset, where in _lines(_OPSETS).get(_OPSETS, {}).items() for version in where}


def read() -> Lacking:
    """The table, without the versions' operator sets."""
    return _lines("")


def _lines(only: str) -> Lacking:
    found: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    for line in _TABLE.read_text("utf-8").splitlines():
        subject, things, versions = line.split(": ")
        if (subject == _OPSETS) == bool(only):
            where = frozenset(_spread(versions))
            for each in _subjects(subject):
                found[each].update(dict.fromkeys(things.split(), where))
    return found


def write(opsets: Mapping[str, int], table: Lacking) -> None:
    """Write the table.

    Args:
        opsets: The versions that were probed, and their highest operator sets.
        table: What they lack.
    """
    by_opset: dict[str, list[str]] = defaultdict(list)
    for version, opset in opsets.items():
        by_opset[str(opset)].append(version)
    lines = [f"{_OPSETS}: {opset}: {_joined(where)}" for opset, where in sorted(by_opset.items())]
    for subject, things in _grouped({name: _extended(name, opsets, each) for name, each in table.items()}):
        by_versions: dict[str, list[str]] = defaultdict(list)
        for thing, where in sorted(things.items()):
            by_versions[_joined(where)].append(thing)
        lines += [f"{subject}: {' '.join(lacks)}: {versions}" for versions, lacks in sorted(by_versions.items())]
    _TABLE.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _extended(
    subject: str, opsets: Mapping[str, int], things: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """What is lacking, also in the versions without the operator set if the next one lacks it: lines become equal."""
    opset = int(subject.partition(", opset ")[2] or 0)
    older = {version for version, highest in opsets.items() if highest < opset}
    first = min(opsets.keys() - older, key=_minor)
    return {thing: where | older if first in where else where - older for thing, where in things.items()}


def _grouped(table: Lacking) -> list[tuple[str, Mapping[str, frozenset[str]]]]:
    """The subjects; those that differ in consecutive operator sets only are one."""
    runs: list[tuple[str, list[int], Mapping[str, frozenset[str]]]] = []
    pairs = ((subject.partition(", opset "), things) for subject, things in table.items() if things)
    for (name, _, number), things in sorted(pairs, key=lambda pair: (pair[0][0], int(pair[0][2] or 0))):
        opset = int(number or 0)
        if runs and number and (runs[-1][0], runs[-1][1][-1] + 1, runs[-1][2]) == (name, opset, things):
            runs[-1][1].append(opset)
        else:
            runs.append((name, [opset], things))
    return [(f"{name}, opset {_range(opsets)}" if opsets[0] else name, things) for name, opsets, things in runs]


def _subjects(subject: str) -> list[str]:
    """The subjects of a line: one for each operator set."""
    name, _, opsets = subject.partition(", opset ")
    if not opsets:
        return [subject]
    first, _, last = opsets.partition("-")
    return [f"{name}, opset {opset}" for opset in range(int(first), int(last or first) + 1)]


def _range(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def _joined(versions: Iterable[str]) -> str:
    """Versions as ranges: `1.21-1.30 1.32`."""
    runs: list[list[int]] = []
    for minor in sorted(map(_minor, versions)):
        if runs and runs[-1][-1] + 1 == minor:
            runs[-1].append(minor)
        else:
            runs.append([minor])
    return " ".join(f"1.{run[0]}" if len(run) == 1 else f"1.{run[0]}-1.{run[-1]}" for run in runs)


def _spread(ranges: str) -> list[str]:
    """The versions of ranges."""
    found = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        found += [f"1.{minor}" for minor in range(_minor(first), _minor(last or first) + 1)]
    return found


def _minor(version: str) -> int:
    """The number after `1.`."""
    return int(version.removeprefix("1."))
