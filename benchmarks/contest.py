"""Timing contenders against each other in one run, and showing the ratios."""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Contender = Callable[[], object]


@dataclass(frozen=True)
class Result:
    """One line: median milliseconds by contender; the first contender is the one that others are compared with."""

    case: str
    milliseconds: Mapping[str, float]

    def ratio(self, contender: str) -> float:
        """How many times as long as a contender ours takes."""
        ours = next(iter(self.milliseconds.values()))
        return ours / self.milliseconds[contender]


def contest(case: str, contenders: Mapping[str, Contender], seconds: float = 2.0) -> Result:
    """Run the contenders in turns, so that all of them meet the same weather, for about `seconds` in all."""
    for run in contenders.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times[next(iter(times))]) < 3:
            for name, run in contenders.items():
                start = time.perf_counter()
                run()
                times[name].append(1e3 * (time.perf_counter() - start))
    finally:
        gc.enable()
    return Result(case, {name: statistics.median(values) for name, values in times.items()})


def show(title: str, results: list[Result], as_json: bool) -> None:
    """Print the results as a table, or as JSON."""
    if as_json:
        lines = [{"case": r.case, "milliseconds": dict(r.milliseconds)} for r in results]
        sys.stdout.write(json.dumps({"title": title, "results": lines}, indent=2) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    names = list(dict.fromkeys(name for r in results for name in r.milliseconds))
    table = Table(
        "case", *(f"{name} ms" for name in names), *(f"{names[0]} / {name}" for name in names[1:]), title=title
    )
    for r in results:
        times = [_figure(r.milliseconds.get(name)) for name in names]
        ratios = [_figure(r.ratio(name)) if name in r.milliseconds else "" for name in names[1:]]
        table.add_row(r.case, *times, *ratios)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def progress(case: str) -> None:
    """Say what is being timed, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{case}")
        sys.stderr.flush()


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
