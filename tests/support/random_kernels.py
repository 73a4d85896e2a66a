"""Draws calls of TensorFlow's operators, and compares each with TensorFlow's kernel.

    python -m support.random_kernels --calls 5000 --seed 1             # in the folder tests
    python -m support.random_kernels --calls 20000 --seed 1 --record   # the counts that the page of coverage prints

Calls are made in a process of its own: one that ends it is reported, and the next ones are made in another.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

#: The outcomes that are recorded: of each operator, how many of them.
KINDS = ("equal", "refused", "wrong", "death")
RECORD = Path(__file__).parents[2] / "docs" / "coverage" / "tensorflow_calls.json"
#: Calls that one process makes.
_AT_ONCE = 500


def results(first: int, count: int, operators: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """The operators and outcomes of calls: `equal`, `invalid`, `refused: why`, `wrong: how` or `death: of what`.

    TensorFlow's kernels of oneDNN, which are its default, differ from its own on infinities, negative borders and empty
    images. An answer that is not that of the former may be that of the latter.
    """
    done = 0
    while done < count:
        for operator, outcome in _made(first + done, min(_AT_ONCE, count - done), operators):
            if outcome.startswith("wrong"):
                ((_, other),) = _made(first + done, 1, operators, TF_ENABLE_ONEDNN_OPTS="0")
                outcome = other if other == "equal" else outcome
            done += 1
            yield operator, outcome


def _made(first: int, count: int, operators: Sequence[str], **environment: str) -> Iterator[tuple[str, str]]:
    """What one process makes, up to its death."""
    command = [sys.executable, "-m", "support.random_kernels", "--work", str(first), str(count), *operators]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[1],
        env={**os.environ, **environment},
        text=True,
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
                begun = ""
                yield operator, outcome
    if worker.returncode:
        if not begun:
            raise RuntimeError(f"the process that makes calls ended with {worker.returncode} before the first")
        yield begun, f"death: {worker.returncode}" if is_answered else "invalid"  # TensorFlow's own end


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _work(first: int, count: int, operators: Sequence[str]) -> None:
    from support.tensorflow_kernels import drawn, outcome
    from tensorflow_kernel_rows import ROWS

    rows = [row for row in ROWS if not operators or row.op in operators]
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
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--work", nargs="*")
    options = parser.parse_args()
    if options.work:
        first, count, *operators = options.work
        _work(int(first), int(count), operators)
        return 0
    counts: Counter[str] = Counter()
    found: dict[str, Counter[str]] = {}
    for operator, outcome in results(options.seed * 1_000_000, options.calls, options.operators):
        kind = outcome.partition(":")[0]
        counts[kind] += 1
        found.setdefault(operator, Counter())[kind] += 1
        if kind in ("wrong", "death"):
            _say(f"{operator}: {outcome}")
        if options.record and counts.total() % _AT_ONCE == 0:
            lines = (
                f" {json.dumps(name)}: {json.dumps([each[k] for k in KINDS])}" for name, each in sorted(found.items())
            )
            RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    _say(str(dict(counts)))
    return int(counts["wrong"] + counts["death"] > 0)


if __name__ == "__main__":
    sys.exit(main())
