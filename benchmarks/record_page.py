"""The page of the documentation that shows the newest measurements of each processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from machine import Machine
from records import FOLDER, Line, Record, kept

from onnx_sparse.schemas.pages import table

_HEAD = """# Measurements

The newest run of each benchmark on each processor; the files in
[measurements](https://github.com/onnx-sparse/onnx_sparse/tree/main/docs/measurements) keep earlier runs too.
A figure under "/ limit" is the time as a multiple of what the machine needs at least: to copy as many bytes, or, where
hardly any are moved, for one Identity of ONNX Runtime on the same inputs. Under another library's name it is the time
divided by that library's: below 1, the first column is faster. All are medians of turns.

`python benchmarks/native.py --save` adds a run; `python benchmarks/compare.py` compares it with the one before on the
same processor, and ends with status 1 if a line has become slower beyond the noise; `python docs/generate.py` renews
this page.
"""


def page() -> str:
    """The page, from the records that are kept."""
    return _HEAD + "".join(_section(records) for _, records in sorted(kept().items()))


def _section(records: Sequence[Record]) -> str:
    newest = {record.benchmark: record for record in records}
    last = records[-1].machine
    title = f"{last['processor']}{_model(last)}"
    return f"\n## {title}\n" + "".join(_run(newest[name]) for name in sorted(newest))


def _model(machine: Mapping[str, Any]) -> str:
    """What a section's title says of the processor beside its name."""
    stepping = machine.get("stepping", "").partition(" ")[2].partition(" stepping")[0]
    return f", {stepping}, {machine['cores']} cores" if stepping else ""


def _run(record: Record) -> str:
    assert record.path is not None  # it is kept
    link = f"measurements/{record.path.relative_to(FOLDER).as_posix()}"
    where = str(Machine.from_json(record.machine)) if "versions" in record.machine else ""
    text = "\n\n".join(filter(None, [record.note, *where.splitlines()]))
    return f"\n### {record.benchmark}, {record.time[:10]}\n\n[The file]({link}). {text}\n\n{_table(record.lines)}"


def _table(lines: Sequence[Line]) -> str:
    timed = [line for line in lines if line.turns]
    ours = timed[0].names[0] if timed else ""
    others = dict.fromkeys(name for line in lines for name in [*line.names[1:], *line.ratios])
    names = sorted(others, key=lambda name: name != "limit")  # the limit first
    head = ["case", "threads", *([f"{ours}, ms"] if ours else []), *(f"/ {name}" for name in names)]
    rows = []
    for line in lines:
        known = {*line.names, *line.ratios}
        times = [f"{1e3 * line.seconds(line.names[0]):.3g}" if line.turns else ""] if ours else []
        ratios = [f"{line.ratio(name):.2f}" if name in known else "" for name in names]
        rows.append((line.case, str(line.threads or ""), *times, *ratios))
    return table(head, rows) + "\n"
