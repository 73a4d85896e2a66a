"""Times contenders against each other in one run and shows the ratios."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

Contender = Callable[[], object]

#: Seconds of pause before each turn of a contender, and the number of timed runs in a turn.
_PAUSE = 0.1
_RUNS = 3


@dataclass(frozen=True)
class Result:
    """One line: median milliseconds by contender; the others are compared with the first."""

    case: str
    milliseconds: Mapping[str, float]

    def ratio(self, contender: str) -> float:
        """Our time divided by a contender's."""
        ours = next(iter(self.milliseconds.values()))
        return ours / self.milliseconds[contender]


def median_times(contenders: Mapping[str, Contender], rounds: int, seconds: float = 4.0) -> dict[str, float]:
    """The median seconds of each contender; they take turns, so that other load on the machine affects all alike.

    A library's threads spin for a while after their work, ONNX Runtime's for about 60 ms. A pause and an untimed run
    before each turn let a contender start with its own threads awake and the others' asleep. No contender is timed for
    much longer than `seconds`.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, run in contenders.items():
                if sum(times[name]) < seconds:
                    time.sleep(_PAUSE)
                    run()
                    times[name] += [_seconds(run) for _ in range(_RUNS)]
    finally:
        gc.enable()
    return {name: statistics.median(values) for name, values in times.items()}


def contest(case: str, contenders: Mapping[str, Contender], seconds: float = 2.0) -> Result:
    """Time each contender for about `seconds` or ten rounds, whichever is less."""
    medians = median_times(contenders, 10, seconds)
    return Result(case, {name: 1e3 * median for name, median in medians.items()})


def _seconds(run: Contender) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def machine(*packages: str) -> str:
    """The processor, the load of the last minute, and the versions of those of the packages that are installed."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = f"{os.cpu_count()} x {next(iter(names), platform.processor())}"
    installed = [f"{name} {version(name)}" for name in packages if importlib.util.find_spec(name)]
    return ", ".join([processor, f"load {os.getloadavg()[0]:.1f}", *installed])


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
