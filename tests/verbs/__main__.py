"""Draws operands for every verb of several roads, and compares each road with what the verb means.

    python -m verbs --draws 50 --seed 1        (in the folder tests)
    python -m verbs --verb floor_div-ge --draws 500

Exit 0: each road gave what the verb means. What a road refuses is counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

from verbs.engine import pairs, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verbs", description=__doc__)
    parser.add_argument("--verb", default="", help="a part of VERB-ROAD; all when omitted")
    parser.add_argument("--draws", type=int, default=1, help="how many draws for each element type")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--show", action="store_true", help="show what was refused")
    parser.add_argument("--hashes", type=Path, help="write the digest of each converted model, to compare two versions")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    report = run(options.verb, options.seed, options.draws)
    for line in report.wrong:
        print(line)
    if options.show:
        for reason, count in report.refused.most_common():
            print(count, reason)
    if options.hashes is not None:
        options.hashes.write_text(json.dumps(report.hashes, indent=1))
    print(f"{sum(report.counts.values())} draws of {len(pairs(options.verb))} verbs on a road: {dict(report.counts)}")
    return bool(report.wrong)


if __name__ == "__main__":
    sys.exit(main())
