"""Walks the atlas; see the package."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import atlas
from atlas.cases import DRAWN, FAMILIES
from atlas.expected import EXPECTED, Expected
from atlas.operators import written
from atlas.walk import walk


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m atlas", description=atlas.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--operator", action="append", help="the operators; all when omitted")
    parser.add_argument("--every", type=int, default=1, help="walk one case of so many")
    parser.add_argument("--show", action="store_true", help="show what differs before the passes, too")
    options = parser.parse_args()
    chosen = options.operator or sorted(written() & {*FAMILIES, *DRAWN})
    count: Counter[str] = Counter()
    types: set[str] = set()
    met: set[Expected] = set()
    for op_type in chosen:
        found = walk(op_type, every=options.every)
        types |= found.types
        known = {label: [each for each in EXPECTED if each.holds(op_type, label)] for label in found.guarded}
        met.update(each for several in known.values() for each in several)
        unexpected = [label for label, several in known.items() if not several]
        cured = found.raw.keys() - found.guarded.keys()
        count.update(cases=found.runs, raw=len(found.raw), cured=len(cured), guarded=len(found.guarded))
        count.update(unexpected=len(unexpected), operators=1, faulty=bool(found.raw))
        print(f"{op_type}: {found.runs} cases, {len(found.raw)} differ, {len(cured)} of these are cured", flush=True)
        for label in unexpected:
            print(f"  unexpected: {op_type} of {label}: {found.guarded[label]}")
        for label in sorted(cured) if options.show else ():
            print(f"  cured: {op_type} of {label}: {found.raw[label]}")
    gone = [each for each in EXPECTED if each not in met and not options.operator and options.every == 1]
    for each in gone:
        print(f"expected, but not found: {each.operators} of {each.values}: {each.reason}")
    print(
        f"{count['operators']} operators in {len(types)} types, {count['cases']} cases: {count['raw']} differ in ONNX "
        f"Runtime as it is ({count['faulty']} operators), {count['cured']} of these are cured; {count['guarded']} "
        f"differ after the passes, {count['unexpected']} unexpectedly"
    )
    return bool(gone or count["unexpected"])


if __name__ == "__main__":
    sys.exit(main())
