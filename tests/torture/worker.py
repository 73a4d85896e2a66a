"""A process that does the cases of `files.py`, so that none of them can end or stop the torture."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

#: What a case may take of the processor, in seconds.
PATIENCE = 60
#: How long a line is waited for: other programs may have the processor.
_SILENCE = 10 * PATIENCE
_CASES_PER_PROCESS = 1000
_MOST_FAULTS = 200

_PROGRAM = """
import sys
from torture.files import work
work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), tuple(sys.argv[4:]))
"""


class Worker:
    """A process that does cases; a new one is started where it has died, hangs, or has done many.

    Args:
        road: The name of the road.
        arguments: Arguments of the command beside those of the road.

    Attributes:
        done: How many cases have ended in which way.
        faults: The faults, each with what repeats it.
    """

    def __init__(self, road: str, arguments: tuple[str, ...] = ()) -> None:
        self.road, self.arguments = road, arguments
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []

    def cases(self, seed: int, count: int, seconds: float) -> None:
        """Do cases until they are done or the time is over, but one at least."""
        at, last, end = seed, seed + count, time.monotonic() + seconds
        while at < last and len(self.faults) < _MOST_FAULTS and (at == seed or time.monotonic() < end):
            at = self._batch(at, min(_CASES_PER_PROCESS, last - at), end)

    def _batch(self, seed: int, count: int, end: float) -> int:
        """Do cases in one process; returns the number of the next."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, self.road, str(seed), str(count), *self.arguments],
            stdout=subprocess.PIPE,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])}
            | {"TF_CPP_MIN_LOG_LEVEL": "3"},  # as the command sets it, but here TensorFlow is imported before
        )
        at = seed
        try:
            if _line(process) != "ready":
                self._add_fault("", "no sources")
                return seed + count
            while at < seed + count and (at == seed or time.monotonic() < end):
                number = _line(process)
                outcome, _, fault = _line(process).partition("\t")
                if not outcome or not number:
                    process.kill()
                    self._add_fault(f" --seed {at}", f"the process dies or hangs: {process.wait()}")
                    return at + 1
                self.done[outcome] += 1
                if fault not in ("''", ""):
                    self.done["fault"] += 1
                    self._add_fault(f" --seed {at}", fault)
                at += 1
                if fault.endswith("MB'"):  # what the next would be blamed for, too
                    break
            return at
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def _add_fault(self, case: str, fault: str) -> None:
        self.faults.append(f"--road {self.road}{case}: {fault}")
        sys.stdout.write(f"FAULT  {self.faults[-1]}\n")  # now: whoever ends a long run has seen it
        sys.stdout.flush()


def _line(process: subprocess.Popen[bytes]) -> str:
    """The next line that a process writes; "" where there is none in time."""
    assert process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([process.stdout], [], [], _SILENCE)[0]:
            return ""
        byte = os.read(process.stdout.fileno(), 1)
        if not byte:
            return ""
        line += byte
    return line.decode(errors="replace").rstrip("\n")
