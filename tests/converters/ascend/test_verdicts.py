"""The verdict of `replay` on a tensor: right results in any order of accumulation are ok, planted faults differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16

from onnx_sparse.converters.ascend.atb.comparison import TOLERANCES, compare

F16 = np.dtype(np.float16)
ROUNDS = 12


def wide(array):
    return array.astype(np.float64)


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def accumulated(x, weight, step, random):
    """A product whose partial sums are rounded after every `step` terms, in a random order."""
    total = np.zeros((len(x), weight.shape[1]), x.dtype)
    order = random.permutation(x.shape[1])
    for start in range(0, len(order), step):
        part = order[start : start + step]
        total = (wide(total) + wide(x[:, part]) @ wide(weight[part])).astype(x.dtype)
    return total


def results(dtype, random) -> Iterator[tuple[str, np.ndarray, np.ndarray, int]]:
    """Operations: their name, the exact result, one that an NPU may give, and the number of terms of a sum."""
    rows, terms, columns = (int(random.choice(sizes)) for sizes in ((1, 3, 17, 64), (16, 64, 256), (8, 48, 128)))
    x = (random.standard_normal((rows, terms)) * random.choice([0.02, 0.3, 1, 8])).astype(dtype)
    x[:, random.integers(terms)] *= np.asarray(random.choice([1, 50])).astype(dtype)  # a channel of outliers
    weight = (random.standard_normal((terms, columns)) * random.choice([0.02, 0.1, 1])).astype(dtype)
    exact = (wide(x) @ wide(weight)).astype(dtype)
    for step in (1, 16) if dtype == F16 else (16,):
        yield "product", exact, accumulated(x, weight, step, random), terms
    gamma = wide(random.standard_normal(terms).astype(dtype))
    normed = wide(x) / np.sqrt(np.square(wide(x)).mean(-1, keepdims=True) + 1e-5)
    yield "norm", (normed * gamma).astype(dtype), (wide(normed.astype(dtype)) * gamma).astype(dtype), 1
    length = int(random.choice([16, 128, 1024]))
    scores = (random.standard_normal((rows, length)) * random.choice([0.1, 1, 3])).astype(dtype)
    shifted = (wide(scores) - wide(scores).max(-1, keepdims=True)).astype(dtype)
    yield "softmax", softmax(wide(scores)).astype(dtype), softmax(wide(shifted)).astype(dtype), 1
    q, k, v = (wide(random.standard_normal((n, 4, 16)).astype(dtype)) for n in (rows, length, length))
    weights = softmax(np.einsum("nhd,mhd->hnm", q, k) / 4)
    answers = [np.einsum("hnm,mhd->nhd", w, v).astype(dtype) for w in (weights, wide(weights.astype(dtype)))]
    yield "attention", *answers, 1
    gate = 1 / (1 + np.exp(-np.clip(wide(x), -700, 700)))
    yield "silu", (wide(x) * gate).astype(dtype), (wide(x) * wide(gate.astype(dtype))).astype(dtype), 1


def faults(result, random) -> Iterator[tuple[str, np.ndarray]]:
    """The result with a fault; parts that are nearly 0 are not taken away, as nobody would see it."""
    y = wide(result)
    rows, columns = len(y), y.shape[-1]
    typical = np.sqrt(np.square(y).mean(-1, keepdims=True))

    def without(*place):
        return np.where(np.isin(np.arange(y.size).reshape(y.shape), np.arange(y.size).reshape(y.shape)[place]), 0, y)

    parts = {
        "last row": (slice(-1, None),),
        "tail of rows": (slice(rows - rows // 4, None),),
        "tail of columns": (..., slice(columns - columns // 8, None)),
    }
    for name, place in parts.items():
        if np.any(np.abs(y[place]) > 1e-3 * typical.max()):
            yield name, without(*place)
    if rows > 1:
        first, second = random.choice(rows, 2, replace=False)
        swapped = y.copy()
        swapped[[first, second]] = y[[second, first]]
        if not np.allclose(y[first], y[second], rtol=0.1):
            yield "rows swapped", swapped
    if y.ndim == 3:
        yield "heads swapped", y[:, [1, 0, 2, 3]]
        yield "neighbor's head", y[:, [0, 1, 2, 2]]
    for factor in (0.5, 0.9, 1.1, 2):
        yield f"scaled by {factor}", y * factor
    usual = np.argwhere(np.abs(y) >= 0.4 * typical)
    if len(usual):
        place = tuple(usual[random.integers(len(usual))])
        for name, value in (("an element is 0", 0.0), ("an element is twice itself", 2 * y[place])):
            one = y.copy()
            one[place] = value
            yield name, one


@pytest.mark.parametrize("dtype", [F16, BFLOAT16], ids=str)
def test_verdicts(dtype):
    """No right result is blamed, and of planted faults at least 99 % are found."""
    random = np.random.default_rng(5)
    missed, planted = Counter(), 0
    for _ in range(ROUNDS):
        for name, exact, npu, terms in results(dtype, random):
            right = compare("", "", exact, npu, terms=terms)
            assert right.ok, (name, right.measures)
            for fault, wrong in faults(npu, random):
                planted += 1
                missed[fault, name] += compare("", "", exact, wrong.astype(dtype), terms=terms).ok
    assert planted > 500
    assert missed.total() <= 0.01 * planted, missed.most_common(5)


def test_rows_of_small_elements():
    """A causal softmax of which the last rows are 0: each element is within ATB's tolerance of its own."""
    right = (np.tril(np.ones((1024, 1024))) / np.arange(1, 1025)[:, None]).astype(F16)
    lost = right.copy()
    lost[400:] = 0
    found = compare("", "", right, lost)
    assert not found.ok
    assert found.measures["rows"] > 1


def test_small_elements_beside_an_outlier():
    """A quarter of the elements is 0 in rows whose norm is that of one large channel."""
    random = np.random.default_rng(0)
    right = (random.standard_normal((64, 256)) * 5e-4).astype(F16)
    right[:, 7] = 40
    wrong = np.where(random.random(right.shape) < 0.26, 0, right).astype(F16)
    wrong[:, 7] = 40
    found = compare("", "", right, wrong)
    assert not found.ok
    assert found.measures["elements"] < 1
    assert found.measures["lost"] > 1
    assert "off by more than half of their value" in found.note


@pytest.mark.parametrize("dtype", [F16, BFLOAT16, np.dtype(np.float32)], ids=str)
@pytest.mark.parametrize("size", [1, 30])
def test_errors_of_one_direction(dtype, size):
    """Each of them is within its tolerance; of both directions they are rounding, of one they are a fault."""
    random = np.random.default_rng(1)
    right = (random.choice([-1, 1], (64, 256)) * random.uniform(1, 2, (64, 256)) * size).astype(dtype)
    unit = 0.6 * TOLERANCES[dtype.name] * np.abs(wide(right))
    for signs, reason in ((random.choice([-1, 1], right.shape), ""), (1, "the errors have one direction")):
        found = compare("", "", right, (wide(right) + signs * unit).astype(dtype))
        assert (found.note, found.ok) == (reason, not reason), found.measures


def test_quantized_elements():
    """A step more or less is rounding; the same step in all elements is not."""
    random = np.random.default_rng(0)
    right = random.integers(-100, 100, (16, 16)).astype(np.int8)
    noise = random.integers(-1, 2, right.shape).astype(np.int8)
    assert compare("", "", right, right + noise).ok
    assert not compare("", "", right, right + np.int8(1)).ok
    assert not compare("", "", right, right + 2 * noise).ok


def test_nan_and_infinities():
    values = np.array([[1, np.nan, np.inf, -np.inf] * 4], F16)
    assert compare("", "", values, values).verdict == "equal"
    for place in range(4):
        other = values.copy()
        other[0, place] = 2
        assert not compare("", "", values, other).ok


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_doubles_cannot_tell_apart(dtype):
    values = np.full((2, 8), 2**53, dtype)
    other = values + (np.arange(16).reshape(2, 8) == 11).astype(dtype)
    found = compare("", "", values, other)
    assert not found.ok
    assert found.where == (1, 3)
