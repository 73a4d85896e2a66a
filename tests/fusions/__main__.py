"""Draws graphs around the rewrites of ONNX Runtime's optimizer, and compares answers with and without it.

    python -m fusions --graphs 20000 --seed 1        (in the folder tests)
    python -m fusions --rewrite LayerNorm --graphs 500
    python -m fusions --without ProductByVector      (finds what that guard is for)

Exit 0: with the guards, no graph differed from its run without any optimization, or from onnx's evaluator, and none
ended the process.
"""

from __future__ import annotations

import sys
from collections import Counter

from support.program import parser

from fusions.walk import WRONG, walk
from onnx_sparse.converters.onnxruntime.guards import GUARDS


def main() -> int:
    parsed = parser(__doc__, "python -m fusions", graphs=2000, seed=0)
    parsed.add_argument("--rewrite", default="", help="only those whose name has this text")
    parsed.add_argument("--without", action="append", default=[], help="a guard to omit; repeatable")
    options = parsed.parse_args()
    omitted = [rule for rule in GUARDS if rule.__name__ in options.without]
    counts: Counter[str] = Counter()
    for said in walk(range(options.seed, options.seed + options.graphs), omitted, options.rewrite):
        counts[said["kind"]] += 1
        if said["kind"] in WRONG:
            sys.stdout.write(f"seed {said['seed']}, {said['rewrite']}: {said['outcome']}\n{said['what']}\n\n")
            sys.stdout.flush()
    sys.stdout.write(f"{sum(counts.values())} graphs: {dict(counts)}\n")
    return any(counts[kind] for kind in WRONG)


if __name__ == "__main__":
    sys.exit(main())
