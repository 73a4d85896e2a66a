"""Lookups in quantized tables equal those in float32 tables of the same rows to the last bit.

Any width, any blocks, long segments, any number of threads, any address and any instruction set.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from native.sessions import Array, run
from native.test_addresses import displaced

#: Bytes of a row and blocks in it: every number of vectors and their parts, and rows that are reduced in parts.
SHAPES = ((1, 1), (2, 1), (3, 3), (6, 2), (8, 1), (15, 5), (16, 1), (33, 1), (64, 2), (96, 3), (130, 1), (2100, 1))
KINDS = list(itertools.product(("8", "4"), (np.uint8, np.int8)))
FORMS = ("Segments", "BagOffsets")


def quantized(bits: str, dtype: Any, shape: tuple[int, int], numbers: int = 2) -> dict[str, Array]:
    """A table of numbers of very different magnitudes, with which each order of summation gives different bits."""
    width, blocks = shape
    random = np.random.default_rng([int(bits), width])
    scale_bias = random.standard_normal((50, blocks, numbers)) * 10.0 ** random.integers(-3, 4, (50, 1, 1))
    table = random.integers(0, 256, (50, width), np.uint8).view(dtype)
    return {"emb_table": table, "scale_bias": scale_bias.astype(np.float32)}


def dequantized(table: dict[str, Array], bits: str) -> Array:
    """The rows in float32."""
    integers, numbers = table["emb_table"], table["scale_bias"]
    if bits == "4":
        halves = np.stack([integers.view(np.uint8) & 15, integers.view(np.uint8) >> 4], axis=2)
        integers = halves.reshape(len(integers), -1).astype(np.int16)
        integers = np.where(integers > 7, integers - 16, integers) if table["emb_table"].dtype == np.int8 else integers
    block = integers.shape[1] // numbers.shape[1]
    rows = integers.astype(np.float32) * np.repeat(numbers[:, :, 0], block, axis=1)
    return rows + np.repeat(numbers[:, :, 1], block, axis=1) if numbers.shape[2] == 2 else rows


def lookup(form: str, lengths: list[int]) -> dict[str, Array]:
    random = np.random.default_rng(len(lengths))
    count = sum(lengths)
    common = {"indices": random.integers(0, 50, count), "per_sample_weights": random.random(count).astype(np.float32)}
    if form == "BagOffsets":
        return common | {"offsets": np.cumsum([0, *lengths])[:-1]}
    return common | {"segment_ids": np.repeat(np.arange(len(lengths)), lengths), "num_segments": np.array(len(lengths))}


def assert_same_bits(form: str, mode: str, bits: str, table: dict[str, Array], inputs: dict[str, Array]) -> None:
    (got,) = run(f"QuantizedEmbedding{form}{mode}", table | inputs, bits=bits)
    (expected,) = run(f"Embedding{form}{mode}", {"emb_table": dequantized(table, bits)} | inputs)
    assert got.shape == expected.shape
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("bits", "dtype"), KINDS)
def test_every_width(form: str, bits: str, dtype: Any) -> None:
    inputs = lookup(form, [*range(20), 100, 0])
    unweighted = {name: value for name, value in inputs.items() if name != "per_sample_weights"}
    default = unweighted | {"default_index": np.array(3)}
    for shape, numbers, mode in itertools.product(SHAPES, (1, 2), ("Sum", "Mean", "SqrtN")):
        for given in (inputs, unweighted, default):
            assert_same_bits(form, mode, bits, quantized(bits, dtype, shape, numbers), given)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("bits", "dtype"), KINDS)
def test_long_segments_on_threads(form: str, bits: str, dtype: Any) -> None:
    inputs = lookup(form, [3, 30_000, 0, 5000, *[7] * 3000])
    for shape in ((3, 3), (16, 1), (64, 2)):
        assert_same_bits(form, "Mean", bits, quantized(bits, dtype, shape), inputs)


@pytest.mark.parametrize("bits", ["8", "4"])
def test_any_order(bits: str) -> None:
    table, inputs = quantized(bits, np.uint8, (16, 2)), lookup("Segments", [5] * 2000)
    inputs["segment_ids"] = np.random.default_rng(0).permutation(inputs["segment_ids"])
    (got,) = run("QuantizedEmbeddingSegmentsSum", table | inputs, bits=bits, segment_ids_order="any")
    floats = {"emb_table": dequantized(table, bits)}
    (expected,) = run("EmbeddingSegmentsSum", floats | inputs, segment_ids_order="any")
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, "bfloat16"])
def test_half_floats_are_rounded_once(dtype: Any) -> None:
    import ml_dtypes

    half = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for form, shape in itertools.product(FORMS, ((3, 1), (16, 2), (100, 1))):
        table, inputs = quantized("8", np.uint8, shape), lookup(form, [*range(20), 6000])
        table["scale_bias"] = (table["scale_bias"] % 1).astype(half)
        inputs["per_sample_weights"] = inputs["per_sample_weights"].astype(half)
        (got,) = run(f"QuantizedEmbedding{form}Sum", table | inputs)
        wide = {name: value.astype(np.float32) if value.dtype == half else value for name, value in inputs.items()}
        floats = dequantized({**table, "scale_bias": table["scale_bias"].astype(np.float32)}, "8")
        (expected,) = run(f"Embedding{form}Sum", {"emb_table": floats} | wide)
        assert got.dtype == half
        assert got.tobytes() == expected.astype(half).tobytes()


def answers() -> str:
    """A digest of answers, in inputs at odd addresses."""
    digest = hashlib.sha256()
    for form, (bits, dtype), shape in itertools.product(FORMS, KINDS, SHAPES):
        inputs = quantized(bits, dtype, shape) | lookup(form, [*range(20), 5000])
        moved = {name: displaced(value) for name, value in inputs.items()}
        digest.update(run(f"QuantizedEmbedding{form}SqrtN", moved, bits=bits)[0].tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("name", ["baseline", "avx2"])
def test_every_instruction_set(name: str) -> None:
    done = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"ONNX_SPARSE_INSTRUCTIONS": name},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == answers()


if __name__ == "__main__":
    sys.stdout.write(answers())
