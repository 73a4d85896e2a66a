"""Drawn calls of operators are equal to TensorFlow's kernels or refused; a longer walk is `support.random_kernels`."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("tensorflow")

from support.random_kernels import results
from support.tensorflow_kernels import drawn
from tensorflow_kernel_rows import ELEMENTWISE


def test_drawn_calls_are_equal_or_refused() -> None:
    found = list(results(7_000_000, 120))
    wrong = [f"{operator}: {outcome}" for operator, outcome in found if outcome.startswith(("wrong", "death"))]
    assert not wrong, "\n".join(wrong)
    counts = Counter(outcome.partition(":")[0] for _, outcome in found)
    assert counts["equal"] > 60, counts


def test_the_draw_reaches_what_it_claims() -> None:
    """Ranks 0 to 5, sizes of 0, constants, ends of types, and known and unknown sizes, of one row."""
    (addition,) = (each for each in ELEMENTWISE if each.op == "AddV2")
    calls = [drawn(addition, seed) for seed in range(300)]
    inputs = [call.inputs["x"] for call in calls]
    assert {len(each.sizes) for each in inputs} == {0, 1, 2, 3, 4, 5}
    assert any(0 in call.dims.values() for call in calls)
    assert {each.is_constant for each in inputs} == {each.has_ends for each in inputs} == {True, False}
    assert {call.are_sizes_known for call in calls} == {True, False}
    assert len({call.types["T"] for call in calls}) > 8
