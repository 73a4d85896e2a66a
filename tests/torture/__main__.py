"""Every torture for a time, one after the other: `python -m tests.torture --minutes 3 --seed 1`.

The exit status is 1 if one of them has found a fault; what each has done is printed. A program by its name runs alone:
`python -m tests.torture files`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent

#: The programs, with the number of their parts, each of which takes the time that it is told.
_PROGRAMS = {
    "models": 1,
    "operators": 1,
    "messages": 1,
    "files": 18,
    "readers": 12,
    "memory": 3,
    "concurrency": 1,
    "writers": 1,
    "soak": 4,
    "attacks": 1,
    "requests": 1,
}


def main() -> int:
    parsed = argparse.ArgumentParser(description=__doc__)
    parsed.add_argument("program", nargs="*", metavar="PROGRAM", help=f"{', '.join(_PROGRAMS)}; all when omitted")
    parsed.add_argument("--minutes", type=float, default=3, help="for each program")
    parsed.add_argument("--seed", type=int, default=0)
    arguments = parsed.parse_args()
    if unknown := set(arguments.program) - set(_PROGRAMS):
        parsed.error(f"no such program: {', '.join(sorted(unknown))}")
    found = False
    for name in arguments.program or _PROGRAMS:
        sys.stdout.write(f"== {name}\n")
        sys.stdout.flush()
        command = [
            sys.executable,
            str(_HERE / f"{name}.py"),
            "--seconds",
            f"{60 * arguments.minutes / _PROGRAMS[name]}",
        ]
        found |= subprocess.run([*command, "--seed", str(arguments.seed)], check=False).returncode != 0
    return found


if __name__ == "__main__":
    sys.exit(main())
