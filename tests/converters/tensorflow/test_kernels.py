"""Operators are equal to TensorFlow's kernels or refused, whatever their types, attributes and sizes are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("tensorflow")

from support.tensorflow_kernels import Row, examined
from tensorflow_kernel_rows import ELEMENTWISE, SHAPES, WINDOWS

ROWS = (*ELEMENTWISE, *SHAPES, *WINDOWS)

EACH = pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.op}-{k}") for k, row in enumerate(ROWS)])


@EACH
def test_equal_to_the_kernel_or_refused(row: Row, one_of: Callable[[int], int]) -> None:
    counts, wrong = examined(row, one_of=one_of(3))
    assert not wrong, "\n".join(wrong)
    assert counts["equal"] > 0, "\n".join([f"{row.op}: no call is equal", *map(str, counts.most_common())])


@pytest.mark.slow
@EACH
def test_equal_or_refused_for_the_other_types(row: Row, one_of: Callable[[int], int]) -> None:
    _, wrong = examined(row, of_other_types=True, one_of=one_of(4))
    assert not wrong, "\n".join(wrong)
