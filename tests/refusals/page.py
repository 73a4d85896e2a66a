"""The page of refusals: what each road refused in the last recorded census, how often, why, and what to do instead."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from refusals.judgments import JUDGMENTS
from refusals.reasons import RARE, TRUE, judged

#: What the last census of each road found: a line for each road.
RECORD = Path(__file__).with_name("record.jsonl")
PAGE = Path(__file__).parents[2] / "docs" / "refusals.md"

_TITLES = {"tensorflow": "TensorFlow", "torch": "torch", "openvino": "OpenVINO", "onnx": "ONNX files"}
_SOURCES = {
    "tensorflow": "calls of TensorFlow's operators with random types, attributes, ranks and values",
    "torch": "calls of torch's operators, the samples of its own tests, exported with dynamic sizes",
    "openvino": "models of one OpenVINO operator each, with many types and attributes",
    "onnx": "random graphs around the faults of ONNX Runtime that `convert` and `fuse` replace",
}
_WORDS = {TRUE: "cannot be converted", RARE: "not converted"}


def record(road: str, table: Mapping[tuple[str, str], tuple[int, str]], seen: int, path: Path = RECORD) -> None:
    """Keep what a census found on a road, in the place of what an earlier one did."""
    kept = recorded(path)
    kept[road] = {
        "road": road,
        "cases": seen,
        "refused": [[count, what, reason] for (_, reason), (count, what) in sorted(table.items())],
    }
    path.write_text("".join(f"{json.dumps(kept[name])}\n" for name in sorted(kept)), "utf-8")


def recorded(path: Path = RECORD) -> dict[str, dict[str, Any]]:
    """What was recorded, by road."""
    if not path.exists():
        return {}
    return {line["road"]: line for line in map(json.loads, path.read_text("utf-8").splitlines())}


def page(record: Mapping[str, Mapping[str, Any]]) -> str:
    """The page, from what was recorded."""
    parts = [_section(_TITLES[name], _SOURCES[name], record[name]) for name in _TITLES if name in record]
    return f"""\
# What is refused

Written by `python -m refusals --record` in `tests`. A model is refused with one error that names every node that
cannot be converted, and why. This page counts the reasons over many generated cases. Most of them use types, sizes and
attributes that models rarely have. "cannot be converted" means that the source's own program leaves the result
undefined, or that ONNX and this project's operators cannot express it. "not converted" means that it could be done, and
no model that needs it is known. To ask for one, [open an issue](https://github.com/onnx-sparse/onnx_sparse/issues).

{"".join(parts).rstrip()}
"""


def _section(title: str, source: str, line: Mapping[str, Any]) -> str:
    counts: Counter[tuple[str, str, str]] = Counter()
    operators: dict[tuple[str, str, str], list[str]] = {}
    for count, what, reason in line["refused"]:
        judgment = judged(line["road"], reason, JUDGMENTS)
        if judgment is None:
            raise ValueError(f"nobody has judged the reason {reason!r} of {what}: add a line to refusals/judgments.py")
        key = (_WORDS.get(judgment.verdict, "to be converted"), judgment.why, judgment.instead)
        counts[key] += count
        operators.setdefault(key, []).append(what)
    rows = (
        [str(count), _names(operators[key]), *(_cell(text) for text in key)]
        for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    total, cases = counts.total(), line["cases"]
    return (
        f"## {title}\n\nOf {cases:,} cases, {total} were refused ({total / max(cases, 1):.1%}).\n"
        f"The cases are {source}.\n\n"
        f"{_table(['cases', 'operators', 'verdict', 'why', 'what to do'], rows)}\n"
    )


def _names(operators: Iterable[str]) -> str:
    names = sorted(set(operators))
    shown = ", ".join(f"`{name}`" for name in names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in [heads, ["---"] * len(heads), *rows])
