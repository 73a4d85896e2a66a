"""Takes the census; see the package."""

from __future__ import annotations

import fnmatch
import json
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from support.program import parser
from zoo.isolated_cases import Suite, Tell

import census
from census.cases import DTYPES, cases, operators
from census.expected import EXPECTED, FAULTS
from census.page import PAGE, RECORD, compact, page, recorded
from census.walk import DIES, EQUAL, OUTCOMES, walk


def main() -> int:
    parsed = parser(census.__doc__, "python -m census", draws=3, seed=0, types=len(DTYPES), shard="1/1")
    parsed.add_argument("--operator", action="append", help="the operators, '*' allowed; all when omitted")
    parsed.add_argument("--record", type=Path, help="append each operator to this file; those in it are not run again")
    parsed.add_argument("--again", action="store_true", help="only those operators that are on the page")
    parsed.add_argument("--page", action="store_true", help="write the page of these operators and of those before")
    parsed.add_argument("--show", action="store_true", help="show what is refused or expected, too")
    options = parsed.parse_args()
    known = operators()
    names = [name for pattern in options.operator or ["*"] for name in known if fnmatch.fnmatchcase(name, pattern)]
    if options.again:
        known_before = {line["operator"] for line in recorded()[1]}
        names = [name for name in names if name in known_before]
    place, count = map(int, options.shard.split("/"))
    chosen = {name: known[name] for name in list(dict.fromkeys(names))[place - 1 :: count]}
    counts: Counter[str] = Counter()
    lines = []
    for line in _lines(options.record, chosen, (options.draws, options.seed, options.types)):
        lines.append(compact(line))
        counts.update({outcome: len(several) for outcome, several in line["found"].items()})
        counts["unexpected"] += _told(line, show=options.show)
    print(", ".join(f"{counts[outcome]} {outcome}" for outcome in (*OUTCOMES, "unexpected")))
    if options.page:
        versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "onnxscript", "onnxruntime"))
        types = ", ".join(DTYPES[: options.types])
        merged = {line["operator"]: line for line in (*recorded()[1], *lines)}
        heading = f"a run of {len(merged)} of {len(known)} operators ({types}) with {versions} on {platform.machine()}"
        RECORD.write_text("".join(json.dumps(each) + "\n" for each in (heading, *merged.values())), "utf-8")
        PAGE.write_text(page(), "utf-8")
    return bool(counts["unexpected"])


def _told(line: Mapping[str, Any], *, show: bool) -> int:
    """Print what became of an operator; returns how many faults are not expected."""
    unexpected = 0
    print(f"{line['operator']}: { {outcome: len(several) for outcome, several in line['found'].items()} }", flush=True)
    for outcome, several in line["found"].items():
        for label, reason in several.items():
            is_expected = any(each.holds(line["operator"], outcome, label) for each in EXPECTED)
            is_fault = outcome in FAULTS and not is_expected
            unexpected += is_fault
            if is_fault or (show and reason):
                print(f"  {outcome}: {label}: {reason}", flush=True)
    return unexpected


def _lines(record: Path | None, chosen: Mapping[str, Any], drawn: tuple[int, int, int]) -> Iterator[dict[str, Any]]:
    known = {}
    if record is not None and record.exists():
        known = {line["operator"]: line for line in map(json.loads, record.read_text("utf-8").splitlines())}
    yield from (known[name] for name in chosen if name in known)
    for line in take({name: info for name, info in chosen.items() if name not in known}, drawn):
        if record is not None:
            with record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        yield line


def take(chosen: Mapping[str, Any], drawn: tuple[int, int, int]) -> Iterator[dict[str, Any]]:
    """What became of each operator's calls, by outcome: their labels and reasons. Calls may end their process."""
    import torch.onnx._internal.exporter._registration  # noqa: F401  # once, instead of in each process

    deadly: dict[str, list[str]] = {name: [] for name in chosen}

    def examine(name: str, tell: Tell) -> tuple[str, str]:
        found: dict[str, dict[str, str]] = {}
        left = [case for case in cases(chosen[name], *drawn) if case.label not in deadly[name]]
        for each in walk(left, lambda label: tell(DIES, label)):
            found.setdefault(each.outcome, {})[each.case.label] = each.reason
        return EQUAL, json.dumps(found)

    suite = Suite("", "", dict, examine, OUTCOMES, DIES, (), ())
    left: Sequence[str] = [*chosen]
    while left:
        again = []
        for name, outcome, text in suite.run({name: name for name in left}, left):
            if outcome == DIES and text.startswith(f"{name} "):
                deadly[name].append(text.removeprefix(f"{name} "))
                again.append(name)
            elif outcome == DIES:
                yield {"operator": name, "found": {DIES: {"": text}}}
            else:
                found = json.loads(text)
                if deadly[name]:
                    found[DIES] = dict.fromkeys(deadly[name], "the process ends")
                yield {"operator": name, "found": found}
        left = again


if __name__ == "__main__":
    sys.exit(main())
