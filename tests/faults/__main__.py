"""Draws small models of each road around each known fault of ONNX Runtime, runs them, and compares with their source.

    python -m faults --models 10000 --seed 1      (in the folder tests)
    python -m faults --road torch --models 40 --seed 1 --show

Exit 0: no model ended the process, differed or was refused by ONNX Runtime. What a converter refuses is counted.
"""

from __future__ import annotations

import argparse
import sys

from faults.examination import examine
from faults.roads import ROADS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--road", choices=ROADS, action="append", help="the roads; all when omitted")
    parser.add_argument("--models", type=int, default=10000, help="how many models in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="show each bundle as it is examined")
    options = parser.parse_args()
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
