"""Times contenders against each other in one run and shows the ratios."""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from machine import Machine
from records import Line, Record

Contender = Callable[[], object]

#: Seconds of pause before each turn of a contender, and the number of timed runs in a turn.
_PAUSE = 0.1
_RUNS = 3
#: Set in the processes that measure one number of threads each.
_THREADS = "ONNX_SPARSE_BENCHMARK_THREADS"


def take_turns(contenders: Mapping[str, Contender], rounds: int, seconds: float = 4.0) -> dict[str, list[float]]:
    """The seconds of each contender in each round; as they take turns, other load on the machine affects all alike.

    A library's threads spin for a while after their work, ONNX Runtime's for about 60 ms. A pause and an untimed run
    before each turn let a contender start with its own threads awake and the others' asleep. The time of a turn is the
    median of its runs. No contender is timed for much longer than `seconds`, so the slow ones have fewer turns.
    """
    turns: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, run in contenders.items():
                if _RUNS * sum(turns[name]) < seconds:
                    time.sleep(_PAUSE)
                    run()
                    turns[name].append(statistics.median(_seconds(run) for _ in range(_RUNS)))
    finally:
        gc.enable()
    return turns


def contest(case: str, contenders: Mapping[str, Contender], seconds: float = 2.0, threads: int = 0) -> Line:
    """Time each contender for about `seconds` or ten rounds, whichever is less."""
    return Line(case, threads, take_turns(contenders, 10, seconds))


def _seconds(run: Contender) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def own_threads() -> int | None:
    """The number of threads that this process measures; None in the process that starts the others."""
    return int(os.environ[_THREADS]) if _THREADS in os.environ else None


def measured_apart(script: str, threads: int, *options: str) -> list[Line]:
    """What a process with this number of threads writes with --json: TensorFlow's is fixed once it has run."""
    with TemporaryDirectory() as folder:
        part = Path(folder) / "part.json"
        command = [sys.executable, script, *options, "--json", str(part)]
        subprocess.run(command, env=os.environ | {_THREADS: str(threads)}, check=True)
        return list(Record.read(part).lines)


def show(title: str, here: Machine, lines: Sequence[Line], as_json: bool = False) -> None:
    """Print the machine and the lines as a table, or both as JSON."""
    if as_json:
        results = [{"case": r.case, "milliseconds": {name: 1e3 * r.seconds(name) for name in r.names}} for r in lines]
        found = {"title": title, "machine": here.to_json(), "results": results}
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    names = list(dict.fromkeys(name for r in lines for name in r.names))
    table = Table(
        "case", *(f"{name} ms" for name in names), *(f"{names[0]} / {name}" for name in names[1:]), title=title
    )
    for r in lines:
        times = [f"{1e3 * r.seconds(name):.3g}" if name in r.turns else "" for name in names]
        ratios = [f"{r.ratio(name):.3g}" if name in r.turns else "" for name in names[1:]]
        table.add_row(r.case, *times, *ratios)
    print(here)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def progress(case: str) -> None:
    """Say what is being timed, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{case}")
        sys.stderr.flush()
