"""Programs that examine what seeds make, in processes of their own, so that one that ends is only a finding."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from support import comparison


@dataclass(frozen=True)
class Finding:
    """What went wrong with what a seed makes: its kind, the steps, and what happened."""

    seed: int
    kind: str
    steps: tuple[str, ...]
    what: str

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.kind} [{' '.join(self.steps)}] {self.what}"


def difference(got: np.ndarray, want: np.ndarray, rounding: float = 0) -> str:
    """How an output is not TensorFlow's beyond rounding, or "" if it is."""
    finite = want[np.isfinite(want)] if want.dtype.kind == "f" else np.zeros(0)
    scale = float(np.abs(finite).max(initial=1e-3))
    return comparison.difference(want, got, 1e-4, max(1e-5 * scale, rounding))


Examine = Callable[[int], tuple[Finding | None, int]]


def _work(examine: Examine, first: int, count: int) -> None:
    for seed in range(first, first + count):
        print(json.dumps(["at", seed]), flush=True)
        finding, compared = examine(seed)
        if finding is None:
            print(json.dumps(["equal", seed, compared]), flush=True)
        else:
            print(json.dumps(["found", seed, finding.kind, finding.steps, finding.what]), flush=True)


def main(script: str, examine: Examine, what: str, at_once: int) -> None:
    """Examine what seeds make, in processes of their own, and print what was found.

    Args:
        script: The file that calls this.
        examine: Examines what a seed makes: what went wrong, and how many runs were compared.
        what: What is made, for the help.
        at_once: How many a process examines.
    """
    parser = argparse.ArgumentParser(description=f"Compare random {what} with TensorFlow.")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help=f"how many {what}")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        _work(examine, given.seed, given.count)
        return
    outcomes: Counter[str] = Counter()
    runs, seed, end = 0, given.seed, given.seed + given.count
    while seed < end:
        command = [sys.executable, script, "--work", "--seed", str(seed), "--count", str(min(at_once, end - seed))]
        # With oneDNN, TensorFlow writes past its matrices.
        environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0", "PYTHONPATH": str(Path(__file__).parents[1])}
        process = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        last = seed - 1
        for line in process.stdout.splitlines():
            kind, last, *rest = json.loads(line)
            if kind == "equal":
                outcomes["equal" if rest[0] else "nothing compared"] += 1
                runs += rest[0]
            elif kind == "found":
                outcomes[rest[0]] += 1
                print(Finding(last, rest[0], tuple(rest[1]), rest[2]), flush=True)
        if process.returncode and last < seed:
            sys.exit(f"the process does not start: exit status {process.returncode}")
        if process.returncode:
            outcomes["process ended"] += 1
            print(Finding(last, "process ended", (), f"exit status {process.returncode}"), flush=True)
        seed = last + 1
    print(", ".join(f"{kind}: {number}" for kind, number in outcomes.most_common()), f"({runs} equal runs)")
