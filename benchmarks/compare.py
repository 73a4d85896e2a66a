"""Compares a run of a benchmark with the last one on the same processor.

    python benchmarks/native.py --save && python benchmarks/compare.py
    python benchmarks/native.py --json new.json && python benchmarks/compare.py new.json

What is compared is the time as a multiple of the limit, which the same run measured turn by turn: it changes less with
other load on the machine than the time itself, which is compared where a line has no limit, or with --absolute. A line
is slower or faster if its median has changed by more than --least, and the turns of the two runs, but for the tenth at
either end, do not overlap. Other work that wants the same memory still changes multiples, of two runs in a row by up
to four: where one began on a busy machine, that is said, and both are worth repeating.

The status is 1 if a line is slower, 2 if there is nothing to compare with, else 0.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from machine import Machine, this_machine
from records import FOLDER, Line, Record, kept
from runner import parser

#: A load from which on other work is visible in what is measured.
_BUSY = 0.5


@dataclass(frozen=True)
class Change:
    """A line of two runs.

    Attributes:
        line: The line of the new run.
        unit: What is compared: "of the limit", or "ms".
        before: Lowest decile, median and highest decile of the turns of the old run.
        after: Those of the new one.
    """

    line: Line
    unit: str
    before: tuple[float, float, float]
    after: tuple[float, float, float]

    @classmethod
    def between(cls, old: Line, new: Line, absolute: bool = False) -> Change:
        """The change of a line."""
        if absolute or "limit" not in old.turns or "limit" not in new.turns:
            before, after = (tuple(1e3 * seconds for seconds in line.spread()) for line in (old, new))
            return cls(new, "ms", before, after)  # type: ignore[arg-type]  # three numbers each
        return cls(new, "of the limit", old.spread("limit"), new.spread("limit"))

    @property
    def factor(self) -> float:
        """The new median divided by the old one."""
        return self.after[1] / self.before[1]

    def kind(self, least: float) -> str:
        """`slower`, `faster`, or nothing where the change is within the noise."""
        if self.after[0] > self.before[2] and self.factor > 1 + least:
            return "slower"
        if self.after[2] < self.before[0] and self.factor < 1 / (1 + least):
            return "faster"
        return ""

    def __str__(self) -> str:
        """The medians, and the deciles."""
        (low, old, high), (lower, new, higher) = self.before, self.after
        return (
            f"{self.line.case}, {self.line.threads} threads: {old:.3g} ({low:.3g} to {high:.3g}) -> "
            f"{new:.3g} ({lower:.3g} to {higher:.3g}) {self.unit}, {self.factor:.2f}"
        )


def changes(old: Record, new: Record, absolute: bool = False) -> list[Change]:
    """The changes of the lines that both runs have times of."""
    lines = {(line.case, line.threads): line for line in old.lines if line.turns}
    pairs = [(lines.get((line.case, line.threads)), line) for line in new.lines if line.turns]
    return [Change.between(before, after, absolute) for before, after in pairs if before is not None]


def last_two(records: list[Record], benchmark: str) -> tuple[Record, Record] | None:
    """The last two runs of a benchmark; None if there are fewer."""
    runs = [record for record in records if record.benchmark == benchmark and any(line.turns for line in record.lines)]
    return (runs[-2], runs[-1]) if len(runs) > 1 else None


def last_before(records: list[Record], new: Record) -> Record | None:
    """The last run of a record's benchmark before it; None if there is none."""
    earlier = [run for run in records if run.benchmark == new.benchmark and run.time < new.time]
    return next((run for run in reversed(earlier) if any(line.turns for line in run.lines)), None)


def versions_that_differ(old: Record, new: Record) -> str:
    """The libraries that have other versions in the two runs."""
    before, after = ({"native library": r.machine["native"], **r.machine["versions"]} for r in (old, new))
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name) or 'none'} -> {after.get(name) or 'none'}" for name in names)


def show(old: Record, new: Record, found: list[Change], least: float) -> int:
    """Print what has changed; returns how many lines are slower."""
    print(f"{new.benchmark}: {old.time} -> {new.time}, {len(found)} lines in both")
    if differing := versions_that_differ(old, new):
        print(f"versions: {differing}")
    loads = [record.machine["load"] for record in (old, new)]
    if max(loads) > _BUSY:
        print(f"the machine was busy (load {loads[0]} -> {loads[1]}): other work may have made these differences")
    counts = {}
    for kind in ("slower", "faster"):
        lines = sorted((c for c in found if c.kind(least) == kind), key=lambda c: -abs(c.factor - 1))
        counts[kind] = len(lines)
        for change in lines:
            print(f"{kind}: {change}")
    print(f"{counts['slower']} slower, {counts['faster']} faster, others within the noise")
    both = {(change.line.case, change.line.threads) for change in found}
    only_one = {(line.case, line.threads) for record in (old, new) for line in record.lines} - both
    for case, threads in sorted(only_one):
        print(f"in one run only: {case}, {threads} threads")
    return counts["slower"]


def main() -> int:
    """Compare and print."""
    made = parser(__doc__)
    made.add_argument("new", type=Path, nargs="?", help="the new run (default: the last one that was kept)")
    made.add_argument("--with", dest="old", type=Path, help="the old run (default: the last one before the new one)")
    made.add_argument("--benchmark", default="native", help="of which the last two runs are compared")
    made.add_argument("--least", type=float, default=0.05, help="the share by which a line must change")
    made.add_argument("--absolute", action="store_true", help="compare milliseconds, not multiples of the limit")
    made.add_argument("--folder", type=Path, default=FOLDER, help=argparse.SUPPRESS)
    arguments = made.parse_args()
    try:
        pair = _runs(arguments)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    found = changes(*pair, arguments.absolute)
    if not found:
        print("the runs have no line in common that has times", file=sys.stderr)
        return 2
    return 1 if show(*pair, found, arguments.least) else 0


def _runs(arguments: argparse.Namespace) -> tuple[Record, Record]:
    """The old and the new run.

    Raises:
        ValueError: There is none.
    """
    records = kept(arguments.folder)
    if arguments.new is None:
        folder = this_machine().folder
        pair = last_two(records.get(folder, []), arguments.benchmark)
        if pair is None:
            raise ValueError(f"{arguments.folder / folder} has no two runs of {arguments.benchmark}")
        return pair
    new = Record.read(arguments.new)
    if arguments.old:
        return Record.read(arguments.old), new
    folder = Machine.from_json(new.machine).folder
    old = last_before(records.get(folder, []), new)
    if old is None:
        raise ValueError(f"{arguments.folder / folder} has no run of {new.benchmark} before {new.time}")
    return old, new


if __name__ == "__main__":
    sys.exit(main())
