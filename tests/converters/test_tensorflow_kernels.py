"""Operators are equal to TensorFlow's kernels or refused, whatever their types, attributes and sizes are."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from tensorflow_kernel_rows import ELEMENTWISE, SHAPES, WINDOWS
from tensorflow_kernels import Row, examined

ROWS = (*ELEMENTWISE, *SHAPES, *WINDOWS)


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.op}-{k}") for k, row in enumerate(ROWS)])
def test_equal_to_the_kernel_or_refused(row: Row) -> None:
    counts, wrong = examined(row)
    assert not wrong, "\n".join(wrong)
    assert counts["equal"] > 0, counts
