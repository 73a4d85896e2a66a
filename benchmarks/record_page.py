"""The page of the documentation with the newest measurements of each processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from machine import Machine
from records import FOLDER, Line, Record, kept

from onnx_sparse.schemas.pages import table

_HEAD = """# Measurements

Each table has the newest run of a benchmark on each processor. Times are medians in milliseconds. The other columns are
ratios: the time divided by the column's time, so below 1 onnx_sparse is faster. "limit" is the least that the machine
needs: the time to copy as many bytes or, if hardly any bytes move, the time of one Identity in ONNX Runtime on the same
inputs.

`python benchmarks/native.py --save` adds a run. `python benchmarks/compare.py` compares it with the previous run on the
same processor, and ends with status 1 if a line has become slower beyond the noise. `python docs/generate.py` renews
this page. The files in [measurements](https://github.com/onnx-sparse/onnx_sparse/tree/main/docs/measurements) include
earlier runs.

## Processors

"""


def page() -> str:
    """The page, from the records that are kept."""
    newest = {name: {record.benchmark: record for record in records} for name, records in sorted(kept().items())}
    labels = {name: chr(ord("A") + number) for number, name in enumerate(newest)}
    processors = [(labels[name], _processor([*runs.values()][-1].machine)) for name, runs in newest.items()]
    text = _HEAD + table(("machine", "processor"), processors) + "\n"
    for benchmark in sorted({name for runs in newest.values() for name in runs}):
        runs = {labels[name]: runs[benchmark] for name, runs in newest.items() if benchmark in runs}
        text += f"\n## {benchmark}\n\n{_times(runs)}\n\n{table(('machine', 'run', 'details'), _sources(runs))}\n"
    return text


def _processor(machine: Mapping[str, Any]) -> str:
    """A machine's hardware; of a figure from a text, the name of the processor."""
    if "versions" not in machine:
        return str(machine["processor"])
    return str(Machine.from_json(machine)).splitlines()[0].rpartition(", load ")[0]


def _sources(runs: Mapping[str, Record]) -> list[tuple[str, str, str]]:
    """The file and the circumstances of each processor's run."""
    rows = []
    for label, record in runs.items():
        assert record.path is not None  # it is kept
        link = f"[{record.time[:10]}](measurements/{record.path.relative_to(FOLDER).as_posix()})"
        software = ""
        if "versions" in record.machine:
            machine = Machine.from_json(record.machine)
            software = f"Load {machine.load:.1f}, {str(machine).splitlines()[1]}"
        rows.append((label, link, " ".join(filter(None, [record.note, software]))))
    return rows


def _times(runs: Mapping[str, Record]) -> str:
    """One table of all processors: a line for each case, number of threads and processor."""
    lines = [(label, line) for label, record in runs.items() for line in record.lines]
    cases = list(dict.fromkeys((line.threads, line.case) for _, line in lines))
    lines.sort(key=lambda each: cases.index((each[1].threads, each[1].case)))  # stable: processors keep their order
    others = dict.fromkeys(name for _, line in lines for name in [*line.names[1:], *line.ratios])
    names = sorted(others, key=lambda name: name != "limit")  # the limit first
    head = ["case", "threads", "machine", "ms", *(f"/ {name}" for name in names)]
    return table(head, [_row(label, line, names) for label, line in lines])


def _row(label: str, line: Line, names: Sequence[str]) -> list[str]:
    known = {*line.names, *line.ratios}
    time = f"{1e3 * line.seconds(line.names[0]):.3g}" if line.turns else ""
    ratios = [f"{line.ratio(name):.2f}" if name in known else "" for name in names]
    return [line.case, str(line.threads or ""), label, time, *ratios]
