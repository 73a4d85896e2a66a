"""Attacks on a server, each next to honest clients: how long these wait, and the memory of the server.

`python tests/torture/attacks.py --seconds 10` attacks for that time in each kind and prints a table; kinds that are
named run alone. The exit status is 1 if an honest client got a wrong answer or none, or in no try was all in time. An
attack takes half of a processor and more: on a machine that is busy, times are compared with how late a thread is that
does nothing. Linux only: it reads /proc.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support import attackers, program
from support.attacked_server import attack, attacked, measured, memory_of, seconds_to_rest

#: The kinds by their sizes: MiB of a request, or a number of connections or of calls.
KINDS = {
    **dict.fromkeys(attackers.REQUESTS, 40),
    "idle": 2000,
    "slow headers": 500,
    "slow bodies": 500,
    "pipelined": 50,
    "unread answers": 150,
    "stalled bodies": 64,
    "slow runs": 10,
    "contents": 57,
    "unread gRPC answers": 50,
}
#: What honest clients may wait, 99 of 100 and the last, in seconds, and what the server may take and how long after.
P99, LONGEST, MEMORY, BACK = 0.5, 2.0, 400 << 20, 10.0
TRIES = 2
_HEAD = f"{'attack':20}  answers  p99 s  longest  large  health  late  +MiB  back s  attacker\n"


def main() -> int:
    parsed = program.parser(__doc__, seconds=60.0, seed=0)
    parsed.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; all when omitted")
    parsed.add_argument("--run-timeout", type=float, default=30)
    parsed.add_argument("--json", action="store_true", help="print an object for each attack")
    arguments = parsed.parse_args()
    kinds = arguments.kinds or [*KINDS]
    faults = 0
    if not arguments.json:
        sys.stdout.write(_HEAD)
    for kind in kinds:
        for left in reversed(range(TRIES)):
            row = attacked_once(kind, arguments.seconds / len(kinds), arguments.run_timeout)
            sys.stdout.write(f"{json.dumps(row)}\n" if arguments.json else _line(row))
            sys.stdout.flush()
            if row["is_good"]:
                break
            faults += not left
    return faults > 0


def attacked_once(kind: str, seconds: float, run_timeout: float) -> dict[str, Any]:
    """A row of the table: seconds, and MiB above rest until the server is at rest again."""
    with tempfile.TemporaryDirectory() as name, attacked(Path(name), "--run-timeout", str(run_timeout)) as server:
        measured(server, 1)
        rest = memory_of(server)
        with attack(server, kind, seconds + 0.2, KINDS[kind]) as attacker:
            found = measured(server, seconds)
            statuses = attacker.stdout.read().strip() if attacker.stdout is not None else ""
        back, peak = seconds_to_rest(server, rest, 3 * BACK)
    p99, late = float(np.percentile(found.answers, 99)), max(found.late)
    longest, large, health = max(found.answers), max(found.large, default=0), max(found.health)
    more = max(found.peak, peak) - rest
    is_good = (
        not found.wrong
        and p99 <= P99 + late
        and max(longest, large, health) <= LONGEST + late
        and more <= MEMORY
        and back <= BACK + late
    )
    return {
        "kind": kind,
        "answers": len(found.answers),
        "p99": p99,
        "longest": longest,
        "large": large,
        "health": health,
        "late": late,
        "mib": more >> 20,
        "back": back,
        "attacker": statuses,
        "wrong": [str(each) for each in found.wrong[:3]],
        "is_good": bool(is_good),
    }


def _line(row: dict[str, Any]) -> str:
    times = "{p99:5.2f}  {longest:7.2f}  {large:5.2f}  {health:6.2f}  {late:4.2f}  {mib:4}  {back:6.1f}".format(**row)
    wrong = f"; wrong, such as {row['wrong'][0]}" if row["wrong"] else ""
    mark = "" if row["is_good"] else "  <- not as it must be"
    return f"{row['kind']:20}  {row['answers']:7}  {times}  {row['attacker']}{wrong}{mark}\n"


if __name__ == "__main__":
    sys.exit(main())
