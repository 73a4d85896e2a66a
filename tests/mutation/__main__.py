"""Plants faults in sources, one at a time, and counts those that the nearest tests notice: the mutation score.

In the folder `tests`:

    python -m mutation [--room guards] [--count 40] [--seed 1] [--json FILE] [--raise-floors]
    python -m mutation --named

Nothing is written into the sources: a process that has imported third-party packages forks for each fault, and imports
the changed module there. The status is 1 if a room's score is below its floor in floors.json, or if a fault of the list
of named ones survives. A fault that ran out of time is not decided.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutation.named import named
from mutation.native import native_outcomes
from mutation.planting import Mutant, mutants
from mutation.rooms import ROOMS, ROOT, Room
from mutation.running import KILLED, SURVIVED, TIMED_OUT, Child, baseline, start

FLOORS = Path(__file__).with_name("floors.json")
#: What every test imports, and what is not mutated.
_THIRD_PARTY = ("numpy", "onnx", "onnx.reference", "onnxruntime", "hypothesis", "pytest")


@dataclass
class Outcome:
    """What became of the mutants of a room."""

    killed: list[Mutant] = field(default_factory=list)
    survived: list[Mutant] = field(default_factory=list)
    timed_out: list[Mutant] = field(default_factory=list)

    def note(self, mutant: Mutant, verdict: str) -> None:
        """Add a verdict."""
        {KILLED: self.killed, SURVIVED: self.survived, TIMED_OUT: self.timed_out}[verdict].append(mutant)
        if verdict != KILLED:
            print(f"  {verdict}: {mutant}", flush=True)

    @property
    def score(self) -> float:
        """The killed of the decided, in percent."""
        decided = len(self.killed) + len(self.survived)
        return 100 * len(self.killed) / decided if decided else 100.0

    def document(self) -> dict[str, Any]:
        """For `--json`."""
        lists = {"survived": self.survived, "timed_out": self.timed_out}
        return {"score": self.score, "killed": len(self.killed)} | {k: [*map(str, v)] for k, v in lists.items()}


def run_room(room: Room, count: int, seed: int, arguments: argparse.Namespace) -> Outcome:
    """Plant a sample of the faults of a room."""
    files = [path for path in room.files() if arguments.only in str(path)]
    sources = {path: (ROOT / path).read_text("utf-8") for path in files}
    everything = [mutant for path, source in sources.items() for mutant in mutants(path, source)]
    sample = random.Random(seed).sample(everything, min(count, len(everything)))
    began = time.monotonic()
    reached = baseline(files, arguments.tests or room.tests, arguments.limit * 10)
    took = time.monotonic() - began
    print(f"  {len(sample)} of {len(everything)} faults; {len(reached.seconds)} tests in {took:.0f} s", flush=True)
    # What no test reaches in its own process may be reached in one that it starts.
    tests = arguments.tests or room.tests
    jobs = [(mutant, reached.of(mutant, sources[mutant.path]) or tests) for mutant in sample]
    return run_all(jobs, sources.__getitem__, arguments)


def run_all(
    jobs: Sequence[tuple[Mutant, Sequence[str]]], source_of: Callable[[Path], str], arguments: argparse.Namespace
) -> Outcome:
    """Run the tests of each mutant, some at once."""
    outcome, waiting = Outcome(), list(jobs)[::-1]
    running: list[tuple[Mutant, Child]] = []
    while waiting or running:
        while waiting and len(running) < arguments.processes:
            mutant, tests = waiting.pop()
            running.append((mutant, start(mutant, tests, source_of(mutant.path), arguments.limit)))
        time.sleep(0.05)
        for mutant, child in [*running]:
            if verdict := child.verdict():
                running.remove((mutant, child))
                outcome.note(mutant, verdict)
    return outcome


def run_named(arguments: argparse.Namespace) -> Outcome:
    """Plant every fault of the list."""
    listed = named()
    sources = {mutant.path: (ROOT / mutant.path).read_text("utf-8") for mutant in listed}
    jobs = [(mutant, mutant.tests) for mutant in listed if arguments.only in mutant.name]
    return run_all(jobs, sources.__getitem__, arguments)


def main() -> int:
    """Run, print, compare with the floors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", action="append", choices=ROOMS, help="this room only; repeatable")
    parser.add_argument("--only", default="", help="only files, or named faults, whose path or name has this text")
    parser.add_argument("--tests", nargs="+", help="these tests instead of the room's, from the root")
    parser.add_argument("--count", type=int, default=40, help="how many faults of each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--named", action="store_true", help="the list of named faults instead")
    parser.add_argument("--limit", type=float, default=120, help="seconds for the tests of one fault")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--raise-floors", action="store_true", help="write higher scores into floors.json")
    arguments = parser.parse_args()
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp()
    sys.path.insert(0, str(ROOT / "tests"))
    floors: dict[str, float] = json.loads(FLOORS.read_text("utf-8"))
    names = ["named"] if arguments.named else arguments.room or [*ROOMS]
    document, low = {}, False
    for name in names:
        print(f"== {name}", flush=True)
        for package in (*_THIRD_PARTY, *(() if arguments.named else ROOMS[name].needs)):
            importlib.import_module(package)
        if name == "native":
            outcome = Outcome()
            for mutant, verdict in native_outcomes(arguments.only, arguments.limit):
                outcome.note(mutant, verdict)
        else:
            outcome = (
                run_named(arguments)
                if arguments.named
                else run_room(ROOMS[name], arguments.count, arguments.seed, arguments)
            )
        document[name] = outcome.document()
        floor = floors.get(name, 0.0)
        low |= outcome.score < floor or (arguments.named and bool(outcome.survived))
        print(
            f"  {name}: score {outcome.score:.1f} % (floor {floor:g} %): {len(outcome.killed)} killed, "
            f"{len(outcome.survived)} survived, {len(outcome.timed_out)} timed out",
            flush=True,
        )
        if arguments.raise_floors and outcome.score > floor:
            floors[name] = float(f"{outcome.score - 0.05:.1f}")
            FLOORS.write_text(json.dumps(floors, indent=1) + "\n", "utf-8")
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1), "utf-8")
    return int(low)


if __name__ == "__main__":
    sys.exit(main())
