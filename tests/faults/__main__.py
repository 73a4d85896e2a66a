"""Draws small models of each road around each known fault of ONNX Runtime, runs them, and compares with their source.

    python -m faults --models 10000 --seed 1      (in the folder tests)
    python -m faults --road torch --models 40 --seed 1 --show

Exit 0: no model ended the process, differed or was refused by ONNX Runtime. What a converter refuses is counted.
"""

from __future__ import annotations

import sys

from support.program import parser

from faults.examination import examine
from faults.roads import ROADS


def main() -> int:
    parsed = parser(__doc__, "python -m faults", models=10000, seed=0, show=False)
    parsed.add_argument("--road", choices=ROADS, action="append", help="the roads; all when omitted")
    options = parsed.parse_args()
    roads = options.road or [*ROADS]
    found = []
    for name in roads:
        report = examine(name, options.models // len(roads), options.seed, show=options.show)
        print(report, flush=True)
        found += report.found
    for line in found:
        print(line)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
