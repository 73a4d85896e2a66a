"""Runs many small cases in forked processes, which may end or hang: that costs one case, not the run.

A process takes one case after the other. It tells the outcome before what may end it, and that is the case's outcome if
it does. Each outcome is printed, and with `--record` kept in a file, from which a run goes on.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

#: Tells an outcome and its reason: what becomes of the case if the process ends after it.
Tell = Callable[[str, str], None]

#: A case that tells nothing for longer has hung.
_SECONDS = 120
#: After so many cases a process ends, whose compiled models take memory.
_CASES_PER_PROCESS = 200


@dataclass(frozen=True)
class Suite:
    """A suite of cases.

    Attributes:
        program: How its command line is called.
        description: What its help says.
        cases: Makes the cases, by name; imports what the processes share.
        examine: Examines a case: the outcome and its reason.
        outcomes: All outcomes, in the order of the summary.
        wrong: The outcome that makes the exit status 1.
        silent: Outcomes without a line of their own.
        summarized: Outcomes whose reasons are counted in the summary.
    """

    program: str
    description: str | None
    cases: Callable[[], Mapping[str, Any]]
    examine: Callable[[Any, Tell], tuple[str, str]]
    outcomes: Sequence[str]
    wrong: str
    silent: Sequence[str]
    summarized: Sequence[str]

    def main(self) -> int:
        """Run the command line. The status is 1 if a case is wrong."""
        parser = argparse.ArgumentParser(
            prog=self.program, description=self.description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("-k", default="*", metavar="PATTERN", help="cases whose name matches, '*' allowed")
        parser.add_argument(
            "--record",
            type=Path,
            metavar="FILE",
            help="append each outcome to this file as a line of JSON; the cases in it are not run again",
        )
        given = parser.parse_args()
        cases = {name: case for name, case in self.cases().items() if fnmatch.fnmatchcase(name, given.k)}
        found = {name: result for name, result in _recorded(given.record).items() if name in cases}
        left = [name for name in cases if name not in found]
        for name, outcome, reason in self.run(cases, left):
            found[name] = (outcome, reason)
            if given.record is not None:
                with given.record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, outcome, reason]) + "\n")
            if outcome not in self.silent:
                print(f"{len(found)}/{len(cases)} {outcome}: {name}: {reason}", flush=True)
        counts = Counter(outcome for outcome, _ in found.values())
        print(f"{len(found)} cases: {', '.join(f'{counts[name]} {name}' for name in self.outcomes)}")
        for wanted in self.summarized:
            reasons = Counter(reason for outcome, reason in found.values() if outcome == wanted)
            for reason, count in reasons.most_common():
                print(f"{wanted}, {count}: {reason}")
        return int(counts[self.wrong] > 0)

    def run(self, cases: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        """The name, outcome and reason of each case."""
        left = list(names)
        context = multiprocessing.get_context("fork")
        while left:
            receiver, sender = context.Pipe(duplex=False)
            batch = left[:_CASES_PER_PROCESS]
            process = context.Process(target=self._work, args=(sender, cases, batch))  # may have children itself
            process.start()
            sender.close()
            for name in batch:
                outcome, reason, is_last = "", "the process ends", False
                try:
                    while not is_last and receiver.poll(_SECONDS):
                        outcome, reason, is_last = receiver.recv()
                except EOFError:
                    pass
                left.remove(name)
                yield name, outcome or self.wrong, reason
                if not is_last:
                    break
            process.kill()
            process.join()

    def _work(self, sender: Connection, cases: Mapping[str, Any], names: Sequence[str]) -> None:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        for name in names:
            outcome, reason = self.examine(cases[name], lambda *told: sender.send((*told, False)))
            sender.send((outcome, reason, True))
        sender.close()
        os._exit(0)  # without the destructors of libraries


def _recorded(path: Path | None) -> dict[str, tuple[str, str]]:
    if path is None or not path.exists():
        return {}
    lines = path.read_text("utf-8").splitlines()
    return {name: (outcome, reason) for name, outcome, reason in map(json.loads, lines)}
