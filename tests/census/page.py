"""The page of the census: what became of each operator's calls, from the file that a census recorded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from census.expected import EXPECTED, FAULTS
from census.walk import CAUGHT, DIES, EQUAL, FAILS, NOT_OURS, RANDOM, REFUSED, WRONG

FOLDER = Path(__file__).resolve().parent

#: What the last census found: a line for each operator, and one with the versions first.
RECORD = FOLDER / "record.jsonl"

PAGE = FOLDER.parents[1] / "docs" / "torch_operators.md"

_COLUMNS = {
    "equal": (EQUAL, RANDOM),
    "torch.export refuses": (NOT_OURS,),
    "refused": (REFUSED,),
    "differs": (CAUGHT, FAILS, WRONG, DIES),
}

#: A reason is cut after so many characters.
_REASON = 110


def compact(line: Mapping[str, Any]) -> dict[str, Any]:
    """What the record keeps of an operator: counts, and for each outcome the most frequent reason."""
    found = line["found"]
    reasons = {
        outcome: Counter(" ".join(reason.split()).partition(" Failure message")[0] for reason in calls.values())
        for outcome, calls in found.items()
        if outcome in (REFUSED, NOT_OURS, *FAULTS)
    }
    return {
        "operator": line["operator"],
        "counts": {outcome: len(calls) for outcome, calls in sorted(found.items())},
        "reasons": {outcome: _cut(counted.most_common(1)[0][0]) for outcome, counted in reasons.items()},
        "unexpected": [
            f"{outcome}: {call}"
            for outcome, calls in found.items()
            if outcome in FAULTS
            for call in calls
            if not any(each.holds(line["operator"], outcome, call) for each in EXPECTED)
        ],
    }


def _cut(reason: str) -> str:
    """A reason, to the last word that fits."""
    return reason if len(reason) <= _REASON else f"{reason[:_REASON].rpartition(' ')[0]} ..."


def recorded() -> tuple[str, list[dict[str, Any]]]:
    """The versions of the last census, and its lines."""
    heading, *lines = map(json.loads, RECORD.read_text("utf-8").splitlines())
    return str(heading), lines


def page() -> str:
    """The page."""
    heading, lines = recorded()
    total = Counter({name: sum(_count(line, outcomes) for line in lines) for name, outcomes in _COLUMNS.items()})
    calls = sum(sum(line["counts"].values()) for line in lines)
    counts = ", ".join(f"{total[name]} {name}" for name in _COLUMNS)
    rows = [
        [
            f"`{line['operator']}`",
            *(str(_count(line, outcomes) or "") for outcomes in _COLUMNS.values()),
            _cell(next(iter({**line["reasons"], **_expected(line)}.values()), "")),
        ]
        for line in sorted(lines, key=lambda line: str(line["operator"]))
    ]
    table = _table(["operator", *_COLUMNS, "why"], rows)
    expected = dict.fromkeys(f"- `{each.operators}`: {each.reason}." for each in EXPECTED)
    return f"""\
# Torch operators

Written by `python -m census --page` from {heading}. The calls are samples of torch's own tests (OpInfo), exported with
dynamic sizes. Each is compared with torch on its example, with each size 0, 1 and doubled, and on infinite, NaN and
extreme values; in further calls, a whole number is the size of an input.

"torch.export refuses" counts calls that torch.export or its decompositions do not take. "refused" is a
`ConversionError` that names the operator. "differs" counts calls whose model was refused because it was run and
differed from torch, and calls that differ only on such values; all of these are known, and listed below.

{calls} calls of {len(lines)} operators: {counts}.

{table}
## What differs

{chr(10).join(expected) or "Nothing."}
"""


def _expected(line: Mapping[str, Any]) -> dict[str, str]:
    """Why faults that are known stay, by outcome."""
    return {
        outcome: each.reason
        for outcome in line["counts"]
        for each in EXPECTED
        if each.holds(line["operator"], outcome, "")
    }


def _count(line: Mapping[str, Any], outcomes: Sequence[str]) -> int:
    return sum(line["counts"].get(outcome, 0) for outcome in outcomes)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
