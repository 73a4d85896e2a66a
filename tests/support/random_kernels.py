"""Draws calls of TensorFlow's operators, and compares each with TensorFlow's kernel.

    python -m support.random_kernels --calls 5000 --seed 1    # in the folder tests

Calls are made in a process of its own: one that ends it is reported, and the next ones are made in another.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

#: Calls that one process makes.
_AT_ONCE = 500


def results(first: int, count: int, operators: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """The operators and outcomes of calls: `equal`, `invalid`, `refused: why`, `wrong: how` or `death: of what`."""
    done = 0
    while done < count:
        size = min(_AT_ONCE, count - done)
        command = [sys.executable, "-m", "support.random_kernels", "--work", str(first + done), str(size), *operators]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[1], text=True
        ) as worker:
            assert worker.stdout is not None
            begun, is_answered = "", False
            for line in worker.stdout:
                if line.startswith("begin "):
                    begun, is_answered = line.split()[1], False
                elif line.startswith("answered"):
                    is_answered = True
                elif line.startswith("end "):
                    operator, outcome = json.loads(line[4:])
                    done, begun = done + 1, ""
                    yield operator, outcome
        if worker.returncode:
            if not begun:
                raise RuntimeError(f"the process that makes calls ended with {worker.returncode} before the first")
            done += 1
            yield begun, f"death: {worker.returncode}" if is_answered else "invalid"  # TensorFlow's own end


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _work(first: int, count: int, operators: Sequence[str]) -> None:
    from support.tensorflow_kernels import drawn, outcome
    from tensorflow_kernel_rows import ELEMENTWISE, SHAPES, WINDOWS

    rows = [row for row in (*ELEMENTWISE, *SHAPES, *WINDOWS) if not operators or row.op in operators]
    for seed in range(first, first + count):
        row = random.Random(seed).choice(rows)
        _say(f"begin {row.op}")
        try:
            found = outcome(drawn(row, seed), lambda: _say("answered"))
        except AssertionError as error:
            found = f"wrong: {' '.join(str(error).split())[:500]}"
        except Exception as error:  # of the conversion: not the error that a user is told
            found = f"wrong: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        _say(f"end {json.dumps([row.op, found])}")


def main() -> int:
    """Make calls, and print how often each outcome is, and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operators", nargs="*", default=())
    parser.add_argument("--work", nargs="*")
    options = parser.parse_args()
    if options.work:
        first, count, *operators = options.work
        _work(int(first), int(count), operators)
        return 0
    counts: Counter[str] = Counter()
    for operator, outcome in results(options.seed * 1_000_000, options.calls, options.operators):
        kind = outcome.partition(":")[0]
        counts[kind] += 1
        if kind in ("wrong", "death"):
            _say(f"{operator}: {outcome}")
    _say(str(dict(counts)))
    return int(counts["wrong"] + counts["death"] > 0)


if __name__ == "__main__":
    sys.exit(main())
