"""Draws graphs around every anchor of every guard and rule, and compares what becomes of them with a judge.

    python -m drawing --graphs 10000 --seed 1        (in the folder tests)
    python -m drawing --case "IntegerSum of ReduceSum" --graphs 500

Exit 0: no graph ended the process or differed, and ONNX Runtime took each. What a pass refuses is counted.
"""

from __future__ import annotations

import sys

from support.program import parser

from drawing.engine import cases, examine


def main() -> int:
    parsed = parser(__doc__, "python -m drawing", graphs=2000, seed=0)
    parsed.add_argument("--case", default="", help="a part of `RULE of ANCHOR`; all when omitted")
    parsed.add_argument(
        "--show", action="store_true", help="show what was refused or had no judge, and what never fired"
    )
    options = parsed.parse_args()
    every = cases(options.case)
    report = examine(every, range(options.seed, options.seed + options.graphs))
    for line in report.found:
        print(line)
    if options.show:
        for reason, count in report.refused.most_common():
            print(count, reason)
        print("never fired:", sorted(case for case in report.drawn if not report.fired[case]))
        print("always fired:", sorted(case for case, count in report.drawn.items() if count == report.fired[case]))
    print(f"{sum(report.outcomes.values())} graphs of {len(every)} generators: {dict(report.outcomes)}")
    return bool(report.found)


if __name__ == "__main__":
    sys.exit(main())
