"""Counts what is refused on every road, and holds each reason against what was judged of it.

    python -m refusals --count 1000 --seed 1         (in the folder tests)
    python -m refusals --roads torch onnx
    python -m refusals --record              (keeps the counts, and writes docs/refusals.md from them)

Exit 1: a reason that nobody has judged, or one of ours that is as frequent as five. A new reason is judged by a line in
`refusals/judgments.py`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable

from refusals.judgments import JUDGMENTS
from refusals.page import PAGE, page, record, recorded
from refusals.reasons import MOST_OF_OURS, OURS, Judgment, judged, normal
from refusals.sources import SOURCES, Found

#: How often a reason was given, and what was refused with it at first.
Table = dict[tuple[str, str], tuple[int, str]]


def tabulated(found: Iterable[Found]) -> tuple[Table, Counter[str]]:
    """The reasons of each road, and of how many cases they are."""
    table: Table = {}
    seen: Counter[str] = Counter()
    for road, what, reason in found:
        seen[road] += 1
        if reason:
            count, first = table.get((road, normal(reason)), (0, what))
            table[road, normal(reason)] = (count + 1, first)
    return table, seen


def wrong(table: Table, judgments: tuple[Judgment, ...] = JUDGMENTS) -> list[str]:
    """Reasons without a judgment, and those of ours that are frequent."""
    said = []
    for (road, reason), (count, what) in table.items():
        judgment = judged(road, reason, judgments)
        if judgment is None:
            said.append(f"not judged: {road}, {count} times, {what}: {reason}")
        elif judgment.verdict == OURS and count >= MOST_OF_OURS:
            said.append(f"to be cured: {road}, {count} times, {what}: {reason}")
    return said


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m refusals", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="cases of each road (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--roads", nargs="*", choices=SOURCES, default=[*SOURCES])
    parser.add_argument("--record", action="store_true", help="keep the counts, and write the page")
    options = parser.parse_args()
    status = 0
    for name in options.roads:
        table, seen = tabulated(SOURCES[name](options.count, options.seed))
        refused = sum(count for count, _ in table.values())
        sys.stdout.write(f"{name}: {refused} of {seen[name]} refused ({refused / max(seen[name], 1):.1%})\n")
        for (road, reason), (count, what) in sorted(table.items(), key=lambda entry: -entry[1][0]):
            judgment = judged(road, reason, JUDGMENTS)
            verdict = judgment.verdict if judgment else "?"
            sys.stdout.write(f"{count:6} {verdict:5} {what}: {reason}\n")
        for line in wrong(table):
            sys.stdout.write(f"{line}\n")
            status = 1
        sys.stdout.flush()
        if options.record:
            record(name, table, seen[name])
    if options.record and not status:
        PAGE.write_text(page(recorded()), "utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
