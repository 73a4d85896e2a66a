"""Float results equal TensorFlow's and the reference's to the last bit, with any number of threads and any instruction
set.

The suite compares about a hundred random cases with TensorFlow; `python tests/native/test_bits.py --cases 10000` takes
as many as wanted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from native.sessions import Array, run, segment_ids

from onnx_sparse.reference import FUNCTIONS

RECORDED = Path(__file__).parent / "recorded_bits.json"
MODES = ("Sum", "Mean", "SqrtN")
WIDTHS = (1, 2, 3, 5, 8, 16, 17, 31, 64, 65, 100, 200)
LENGTHS = [*range(40), 100, 257, 1000, 0]


def lookups(width: int, dtype: Any, lengths: list[int], seed: int = 0, rows: int = 300) -> dict[str, Array]:
    """A table of numbers of very different magnitudes, with which each order of summation gives different bits."""
    random = np.random.default_rng([seed, width])
    table = random.standard_normal((rows, width)) * 10.0 ** random.integers(-3, 4, (rows, 1))
    ids = segment_ids(random, np.array(lengths))
    return {
        "emb_table": table.astype(dtype),
        "indices": random.integers(0, len(table), len(ids)),
        "segment_ids": ids,
        "num_segments": np.array(len(lengths)),
    }


def prefetched_rows(width: int, dtype: Any) -> int:
    """How many rows a table must have to be too large for the second-level cache, so that rows are prefetched."""
    return (1 << 20) // (width * np.dtype(dtype).itemsize) + 100


def digest(array: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def recorded_cases() -> list[tuple[str, str, dict[str, Array]]]:
    return [
        (f"{mode} {np.dtype(dtype).name} {width}", mode, lookups(width, dtype, LENGTHS))
        for mode in MODES
        for dtype in (np.float32, np.float64)
        for width in WIDTHS
    ]


@pytest.mark.parametrize(("name", "mode", "inputs"), recorded_cases(), ids=lambda value: value if value else "")
def test_the_bits_are_those_that_tensorflow_gave(name: str, mode: str, inputs: dict[str, Array]) -> None:
    (output,) = run(f"EmbeddingSegments{mode}", inputs)
    assert digest(output) == json.loads(RECORDED.read_text())[name]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bits_are_tensorflows(mode: str, dtype: Any) -> None:
    pytest.importorskip("tensorflow")
    compare_with_tensorflow(mode, dtype, cases=300)


def compare_with_tensorflow(mode: str, dtype: Any, cases: int) -> None:
    import tensorflow as tf

    kernel = getattr(tf.raw_ops, f"SparseSegment{mode}WithNumSegments")
    random = np.random.default_rng(1)
    for seed in range(cases):
        lengths = random.integers(0, random.choice([4, 20, 60]), random.integers(1, 60)).tolist()
        inputs = lookups(int(random.integers(1, 70)), dtype, lengths, seed)
        table, indices, ids, size = inputs.values()
        expected = kernel(data=table, indices=indices, segment_ids=ids, num_segments=size).numpy()
        (output,) = run(f"EmbeddingSegments{mode}", inputs)
        assert output.tobytes() == expected.tobytes(), f"seed {seed}"


@pytest.mark.parametrize("large", [False, True], ids=["cached", "prefetched"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16, 64, 2049])
def test_the_bits_are_the_references_on_any_number_of_threads(
    mode: str, width: int, weighted: bool, large: bool
) -> None:
    lengths = [*LENGTHS, 4095, 4096, 4097, 20_000 if width < 100 else 5000, 0, 0]
    inputs = lookups(width, np.float32, lengths, rows=prefetched_rows(width, np.float32) if large else 300)
    inputs["default_index"] = np.array(7)
    if weighted:
        inputs["per_sample_weights"] = np.random.default_rng(2).standard_normal(len(inputs["indices"]), np.float32)
    expected = FUNCTIONS[f"EmbeddingSegments{mode}"](
        *(inputs[n] for n in ("emb_table", "indices", "segment_ids", "num_segments", "default_index")),
        inputs.get("per_sample_weights"),
    )
    for threads in (1, 2, 8):
        (output,) = run(f"EmbeddingSegments{mode}", inputs, threads=threads)
        assert output.tobytes() == expected.tobytes(), f"{threads} threads"


@pytest.mark.parametrize("large", [False, True], ids=["cached", "prefetched"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16])
def test_short_segments_take_nothing_from_the_next(width: int, dtype: Any, large: bool) -> None:
    """Their rows are read together, but not summed: an infinity or NaN stays in its segment, and -0.0 its sign."""
    table = np.array([-0.0, np.nan, np.inf, 1.0], dtype)[:, None] * np.ones((1, width), dtype)
    if large:
        table = np.tile(table, (prefetched_rows(width, dtype) // len(table), 1))
    lengths = [*range(1, 12), *range(11, 0, -1)] * 3
    rows = np.arange(len(lengths)) % 4
    ids = np.repeat(np.arange(len(lengths)), lengths)
    inputs = {"emb_table": table, "indices": rows[ids], "segment_ids": ids, "num_segments": np.array(len(lengths))}
    (output,) = run("EmbeddingSegmentsSum", inputs)
    expected = np.stack([table[row] * dtype(length) for row, length in zip(rows, lengths, strict=True)])
    np.testing.assert_array_equal(output, expected)
    assert np.signbit(output[rows == 0]).all()


_EVERY_OPERATOR = """
import hashlib, sys
import numpy as np
from native.test_threads import every_operator
for name, outputs in every_operator(threads=2):
    print(name, *(hashlib.sha256(np.ascontiguousarray(o).tobytes()).hexdigest()[:16] for o in outputs))
"""


def answers(instructions: dict[str, str]) -> str:
    """Digests of every operator's outputs, from a process with the given choice of instructions."""
    return subprocess.run(
        [sys.executable, "-c", _EVERY_OPERATOR],
        env=os.environ | instructions | {"PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout


@pytest.mark.slow
def test_every_instruction_set_gives_the_same_bits() -> None:
    """The machine may lack the best set; the others run on every x86."""
    best = answers({})
    assert best.count("\n") > 50
    for name in ("baseline", "avx2"):
        assert answers({"ONNX_SPARSE_INSTRUCTIONS": name}) == best, name


def record() -> None:
    """Record TensorFlow's results: `python -c "from native.test_bits import record; record()"` in tests/."""
    import tensorflow as tf

    recorded = {
        name: digest(
            getattr(tf.raw_ops, f"SparseSegment{mode}WithNumSegments")(
                data=inputs["emb_table"],
                indices=inputs["indices"],
                segment_ids=inputs["segment_ids"],
                num_segments=inputs["num_segments"],
            ).numpy()
        )
        for name, mode, inputs in recorded_cases()
    }
    RECORDED.write_text(json.dumps(recorded, indent=0) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="for each mode and type")
    arguments = parser.parse_args()
    for mode in MODES:
        for dtype in (np.float32, np.float64):
            compare_with_tensorflow(mode, dtype, arguments.cases)
            print(f"{mode} {dtype.__name__}: {arguments.cases} cases have TensorFlow's bits")  # noqa: T201


if __name__ == "__main__":
    main()
