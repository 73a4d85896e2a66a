"""What benchmarks have in common: their options, a process for each number of threads, and where their lines go."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from machine import Machine
from records import FOLDER, Line, Record

#: Set in the processes that measure one number of threads each.
_THREADS = "ONNX_SPARSE_BENCHMARK_THREADS"
_HELP = {"only": "only the cases whose name contains this word", "seconds": "how long to time each case"}


def parser(doc: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """The parser of a benchmark, with an option for each default: a list is for an option that takes several values."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        several = isinstance(default, list)
        kind: type = type(default[0] if several else default)
        made.add_argument(f"--{name}", type=kind, nargs="+" if several else None, default=default, help=_HELP.get(name))
    return made


def parse(made: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments of a benchmark, with the options `--json FILE` and `--save`, which `finish` obeys."""
    made.add_argument("--json", type=Path, metavar="FILE", help="also write the times to this file")
    made.add_argument("--save", action="store_true", help="also keep the times in docs/measurements")
    arguments = made.parse_args()
    if arguments.save and getattr(arguments, "only", ""):
        made.error("--save keeps whole runs, without --only")
    return arguments


def finish(benchmark: str, here: Machine, lines: Sequence[Line], arguments: argparse.Namespace) -> None:
    """Write the lines where the options of `parse` say."""
    record = Record.of_now(benchmark, here, lines)
    if arguments.json:
        record.write(arguments.json)
    if arguments.save:
        path = record.save()
        print(f"kept as {path.relative_to(FOLDER.parents[1])}; now python docs/generate.py", file=sys.stderr)


def measured_apart(
    threads: Sequence[int],
    measure: Callable[[int], list[Line]],
    done: Callable[[list[Line]], None] = lambda lines: None,
) -> list[Line]:
    """The lines of each number of threads, measured in its own process: TensorFlow's number is fixed once it has run.

    Such a process is this program with the same arguments; in it this function does not return.

    Args:
        threads: The numbers of threads.
        measure: Measures one number of threads.
        done: Takes the lines of each number.
    """
    if _THREADS in os.environ:
        Record("part", "", {}, measure(int(os.environ[_THREADS]))).write(Path(sys.argv[-1]))
        sys.exit()
    lines = []
    for number in threads:
        with TemporaryDirectory() as folder:
            part = Path(folder) / "part.json"
            command = [sys.executable, *sys.argv, "--json", str(part)]
            subprocess.run(command, env=os.environ | {_THREADS: str(number)}, check=True)
            found = list(Record.read(part).lines)
        done(found)
        lines += found
    return lines


def is_apart() -> bool:
    """Whether this process measures one number of threads for another one."""
    return _THREADS in os.environ


def show(title: str, here: Machine, lines: Sequence[Line], as_json: bool = False) -> None:
    """Print the machine and the lines as a table, or both as JSON."""
    progress("")
    if as_json:
        results = [{"case": r.case, "milliseconds": {name: 1e3 * r.seconds(name) for name in r.names}} for r in lines]
        found = {"title": title, "machine": here.to_json(), "results": results}
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return
    names = list(dict.fromkeys(name for r in lines for name in r.names))
    rows = []
    for r in lines:
        times = [f"{1e3 * r.seconds(name):.3g}" if name in r.turns else "" for name in names]
        rows.append([r.case, *times, *(f"{r.ratio(name):.3g}" if name in r.turns else "" for name in names[1:])])
    print(here)
    print_table(title, ["case", *(f"{n} ms" for n in names), *(f"{names[0]} / {n}" for n in names[1:])], rows)


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table for readers of a terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*head, title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def progress(case: str) -> None:
    """Say what is being timed, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{case}")
        sys.stderr.flush()
