"""How much longer the plain form takes than the native kernels, and how much memory, on many looked-up rows.

    python benchmarks/plain_form.py

Each line is a process of its own. Times are the least of several turns, in which both forms run one after the other.
Memory is what a run adds to the process at its peak, by the size of the looked-up rows; of the result, that is a part.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
import onnx
from machine import this_machine
from runner import parser
from sessions import session_options

_ENTRIES, _WIDTH, _ROWS = 500_000, 64, 1_000_000

#: An operator, the inputs that are in the order of entries, its attributes, and whether ids are mixed up.
_CASES = {
    "lookup, sum": ("EmbeddingSegmentsSum", "indices, ids, size, none", 'segment_ids_order = "sorted"'),
    "lookup, weighted sum": ("EmbeddingSegmentsSum", "indices, ids, size, none, weights", ""),
    "lookup, mean": ("EmbeddingSegmentsMean", "indices, ids, size, none", ""),
    "lookup, sum, ids in any order": ("EmbeddingSegmentsSum", "indices, ids, size, none", 'segment_ids_order = "any"'),
    "sum": ("SegmentSum", "ids, size", ""),
    "maximum": ("SegmentMax", "ids, size", 'fill_mode = "ZERO"'),
    "sum, ids in any order": ("UnsortedSegmentSum", "ids, size", ""),
    "maximum, ids in any order": ("UnsortedSegmentMax", "ids, size", ""),
}


def _model(case: str) -> onnx.ModelProto:
    op, inputs, attributes = _CASES[case]
    types = {"indices": "int64[k]", "ids": "int64[k]", "size": "int64", "weights": "float[k]"}
    fed = [f"{types[name]} {name}" for name in inputs.split(", ") if name != "none"]
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g (float[v, {_WIDTH}] rows, {", ".join(fed)}) => (float[s, {_WIDTH}] y) <int64 none = {{-1}}> {{
        y = onnx_sparse.{op} {f"<{attributes}>" if attributes else ""} (rows, {inputs})
    }}""")


def _feeds(case: str, segments: int) -> dict[str, Any]:
    op, inputs, _ = _CASES[case]
    rng = np.random.default_rng(0)
    ids = np.sort(rng.integers(0, segments, _ENTRIES))
    made = {
        "indices": rng.integers(0, _ROWS, _ENTRIES),
        "ids": rng.permutation(ids) if "any order" in case else ids,
        "size": np.array(segments),
        "weights": rng.uniform(1, 2, _ENTRIES).astype(np.float32),
    }
    rows = _ROWS if op.startswith("Embedding") else _ENTRIES
    return {
        "rows": rng.standard_normal((rows, _WIDTH), np.float32),
        **{name: made[name] for name in inputs.split(", ") if name != "none"},
    }


def _measure(case: str, segments: int, threads: int, turns: int) -> None:
    import onnxruntime as ort

    import onnx_sparse

    ort.set_default_logger_severity(3)
    model, feeds = _model(case), _feeds(case, segments)
    plain = ort.InferenceSession(onnx_sparse.lower(model).SerializeToString(), session_options(threads))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plain.run(None, feeds)
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    native = onnx_sparse.InferenceSession(model, session_options(threads), backend="native")
    times: dict[Any, list[float]] = {native: [], plain: []}
    for _ in range(turns):
        for session, taken in times.items():
            start = time.perf_counter()
            session.run(None, feeds)
            taken.append(time.perf_counter() - start)
    least = [min(taken) * 1e3 for taken in times.values()]
    memory = added / (_ENTRIES * _WIDTH * 4)
    print(
        f"| {case} | {_ENTRIES // segments} | {threads} | {least[0]:.1f} | {least[1]:.1f} | {least[1] / least[0]:.1f} "
        f"| {memory:.1f} |",
        flush=True,
    )


def main() -> None:
    """Print the table, or one line of it."""
    made = parser(__doc__, turns=15)
    made.add_argument("--only", default="", help="cases whose names have this text")
    made.add_argument("--line", nargs=3, metavar=("CASE", "SEGMENTS", "THREADS"), help=argparse.SUPPRESS)
    given = made.parse_args()
    if given.line:
        case, segments, threads = given.line
        _measure(case, int(segments), int(threads), given.turns)
        return
    print(f"{this_machine()}\n")
    print("| reduction of 500,000 rows of 64 | rows per segment | threads | native ms | plain ms | factor | memory |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for case in _CASES:
        for segments in (100_000, 25_000):
            for threads in (1, 2):
                if given.only in case:
                    line = ["--line", case, str(segments), str(threads), "--turns", str(given.turns)]
                    subprocess.run([sys.executable, __file__, *line], check=True)


if __name__ == "__main__":
    main()
