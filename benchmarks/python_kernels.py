"""The Python kernels in ONNX Runtime against bare numpy and against the function bodies in ONNX Runtime.

    python benchmarks/python_kernels.py [--json]

"bare numpy" is a handwritten numpy call for the case, without a session and without copies of inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnxruntime as ort
from contest import contest
from machine import this_machine
from runner import parser, progress, show
from sessions import one_node_model

import onnx_sparse

Array = np.ndarray[Any, Any]
Inputs = dict[str, Array]
Case = tuple[str, str, dict[str, str], Inputs, Callable[[], object]]


def cases() -> Iterator[Case]:
    """Name, operator, attributes, inputs and the bare numpy call of every case."""
    random = np.random.default_rng(0)
    ten_million = {"dims": np.array([10_000, 1_000]), "value": np.array(1.5, np.float32)}
    yield "Fill, 10^7 float", "Fill", {}, ten_million, lambda: np.full((10_000, 1_000), np.float32(1.5))

    x = random.standard_normal((10_000, 1_000), np.float32)
    mask, value = random.random(x.shape) < 0.3, np.array(0, np.float32)
    yield (
        "MaskedFill, 10^7 float",
        "MaskedFill",
        {},
        {"x": x, "mask": mask, "value": value},
        lambda: np.where(mask, value, x),
    )

    table = random.standard_normal((1_000_000, 64), np.float32)
    indices = random.integers(0, len(table), 500_000)
    ids = np.sort(random.integers(0, 100_000, len(indices)))
    count = np.array(100_000)
    starts = np.searchsorted(ids, np.unique(ids))
    data = table[:500_000]
    lookup = {"emb_table": table, "indices": indices, "segment_ids": ids, "num_segments": count}
    yield (
        "EmbeddingSegmentsSum, 1M x 64, 500k ids, 100k segments",
        "EmbeddingSegmentsSum",
        {},
        lookup,
        lambda: np.add.reduceat(table[indices], starts),
    )
    weights = random.random(len(indices), np.float32)
    yield (
        "the same, weighted",
        "EmbeddingSegmentsSum",
        {},
        {**lookup, "default_index": np.array(-1), "per_sample_weights": weights},
        lambda: np.add.reduceat(table[indices] * weights[:, None], starts),
    )
    segments = {"data": data, "segment_ids": ids, "num_segments": count}
    yield "SegmentSum, 500k x 64", "SegmentSum", {}, segments, lambda: np.add.reduceat(data, starts)
    yield (
        "SegmentMax, 500k x 64",
        "SegmentMax",
        {"fill_mode": "ZERO"},
        segments,
        lambda: np.maximum.reduceat(data, starts),
    )
    shuffled = random.permutation(ids)

    def add_at() -> Array:
        sums = np.zeros((100_000, 64), np.float32)
        np.add.at(sums, shuffled, data)
        return sums

    unsorted = {"data": data, "segment_ids": shuffled, "num_segments": count}
    yield "UnsortedSegmentSum, 500k x 64", "UnsortedSegmentSum", {}, unsorted, add_at

    rows = random.choice(np.flatnonzero(random.random(200_000) < 0.7), 1_000_000)
    entries = np.stack([rows, random.integers(0, 100, len(rows))], axis=1)
    sparse = {
        "values": random.standard_normal(len(rows), np.float32),
        "dense_shape": np.array([200_000, 100]),
        "indices": entries[np.lexsort(entries.T[::-1])],
        "default_value": np.array(0, np.float32),
    }
    for name, inputs in (("sorted", sparse), ("shuffled", {**sparse, "indices": entries})):
        yield (
            f"SparseFillEmptyRows, 1M entries, 200k rows, {name}",
            "SparseFillEmptyRows",
            {"order": "row_major"},
            inputs,
            lambda inputs=inputs: fill_empty_rows(**inputs),  # type: ignore[misc]
        )
    small = {"data": data[:10], "segment_ids": np.arange(10) // 3, "num_segments": np.array(5)}
    yield (
        "SegmentSum, 10 x 64 (latency)",
        "SegmentSum",
        {},
        small,
        lambda: np.add.reduceat(small["data"], [0, 3, 6, 9]),
    )


def fill_empty_rows(values: Array, dense_shape: Array, indices: Array, default_value: Array) -> object:
    """A handwritten SparseFillEmptyRows."""
    empty = np.setdiff1d(np.arange(dense_shape[0]), indices[:, 0])
    filled = np.concatenate([indices, np.stack([empty, np.zeros_like(empty)], axis=1)])
    order = np.lexsort(filled.T[::-1])
    return filled[order], np.concatenate([values, np.full(len(empty), default_value)])[order]


def main() -> None:
    """Time every case and print the table."""
    made = parser(__doc__, seconds=2.0)
    made.add_argument("--json", action="store_true", help="print JSON")
    arguments = made.parse_args()
    here, results = this_machine(), []
    for name, op_name, attributes, inputs, bare in cases():
        progress(name)
        model = one_node_model(op_name, inputs, attributes, {})
        kernel = onnx_sparse.InferenceSession(model, backend="python")
        body = ort.InferenceSession(onnx_sparse.embed_functions(model).SerializeToString())
        contenders = {
            "Python kernel": lambda kernel=kernel, inputs=inputs: kernel.run(None, inputs),
            "bare numpy": bare,
            "function body": lambda body=body, inputs=inputs: body.run(None, inputs),
        }
        results.append(contest(name, contenders, arguments.seconds))
    show("Python kernels in ONNX Runtime, median of interleaved runs", here, results, arguments.json)


if __name__ == "__main__":
    main()
