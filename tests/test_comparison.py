"""What equals what: right results in another order of sums are equal, and what is further off differs."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from onnx_sparse.comparison import TOLERANCES, difference, magnitude_of, noise_of_order
from onnx_sparse.errors import CommandError
from onnx_sparse.sharding.verification import _require_equal

DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in TOLERANCES}
VALUES = (np.nan, np.inf, -np.inf, 0.0, 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("want", "got"), list(itertools.product(VALUES, repeat=2)))
def test_what_is_no_number_equals_itself_only(want, got, dtype):
    """Whatever the magnitude and the noise of what stands beside it."""
    one, other = (np.array([[value, 1e4], [2, 1e4]], DTYPES[dtype]) for value in (want, got))
    same = want == got or (np.isnan(want) and np.isnan(got))
    for exact, floor in itertools.product((True, False), (0.0, noise_of_order([one]))):
        assert (not difference(one, other, magnitude=magnitude_of([one]), floor=floor, exact=exact).reason) == same


def test_types_and_shapes_and_all_but_floats_are_equal_exactly():
    assert difference(np.zeros(3, np.float32), np.zeros(3)).reason == "dtype is float64"
    assert difference(np.zeros((3, 0)), np.zeros((0, 3))).reason == "shape is (0, 3), not (3, 0),"
    for one, other in ((2**53, 2**53 + 1), (True, False), ("a", "b")):
        values = [np.array([value], object if isinstance(value, str) else None) for value in (one, other)]
        assert difference(*values, magnitude=1e9, floor=1e9).reason == "values differ"
        assert not difference(values[0], values[0]).reason
    one = np.float32([[1]])
    assert difference(one, np.nextafter(one, 2), exact=True).reason == "values differ"


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(dtype, size) for dtype in DTYPES for size in (1e-30, 3e-6, 1, 2e4) if dtype != "float16" or size >= 1],
)
def test_sums_in_another_order(size, dtype):
    """Of any size, in columns of any size next to each other: rounding is equal, a hundred times as much is not."""
    rng, relative = np.random.default_rng(0), TOLERANCES[dtype]
    columns = np.array([size, size * 0.01])
    whole = rng.choice([-1, 1], (8, 2)) * rng.uniform(0.5, 1, (8, 2)) * columns

    def judged(moved):
        one, other = whole.astype(DTYPES[dtype]), moved.astype(DTYPES[dtype])
        batches = [one[:3], one[3:], one[:0]]
        for start, end in ((0, 3), (3, 8)):
            _require_equal("y", one[start:end], other[start:end], False, batches)

    judged(whole * (1 + relative / 4))
    for column in range(2):
        moved = whole.copy()
        moved[5, column] += columns[column] * 10 * relative
        with pytest.raises(CommandError, match="output y of the model that is split is not that of the whole one"):
            judged(moved)


def test_answers_of_rows_are_equal_exactly():
    one = np.float32([[1, np.nan]])
    _require_equal("y", one, one.copy(), True)
    with pytest.raises(CommandError):
        _require_equal("y", one, np.nextafter(one, 2), True)
    _require_equal("y", [{"a": 1.0}], [{"a": 1.0}], False)
    with pytest.raises(CommandError):
        _require_equal("y", [{"a": 1.0}], [{"a": 2.0}], False)
