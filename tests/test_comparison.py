"""What equals what: right results in another order of sums are equal, and what is further off differs."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from onnx_sparse.comparison import TOLERANCES, Bounds, difference, magnitude_of, noise_of_order
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


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "bool"])
def test_bounds_that_somebody_gives(dtype):
    """As numpy.isclose has them, element by element, whatever the rule and the noise say."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        want = rng.choice([0, 1e-3, 1, -20, 3e4], (4, 3))
        want = np.where(rng.random((4, 3)) < 0.1, rng.choice([np.nan, np.inf, -np.inf], (4, 3)), want)
        with np.errstate(invalid="ignore"):  # an infinity less an infinity
            moved = want + rng.choice([-1, 1e-3, 0.5, np.nan, np.inf], (4, 3))
        got = np.where(rng.random((4, 3)) < 0.8, want, moved)
        if not dtype.startswith("float"):
            want, got = np.nan_to_num(want, posinf=9, neginf=8), np.nan_to_num(got, posinf=7, neginf=6)
        want, got = want.astype(dtype), got.astype(dtype)
        bounds = Bounds(*rng.choice([0, 1e-4, 0.01, 0.6, 2], 2), most=int(rng.integers(0, 4)))
        close = want == got
        if dtype.startswith("float"):
            a, b = got.astype(np.float64), want.astype(np.float64)
            close = np.isclose(a, b, atol=bounds.atol, rtol=bounds.rtol, equal_nan=True)
        found = difference(want, got, magnitude=1e9, floor=1e9, bounds=bounds)
        assert found.count == np.count_nonzero(~close)
        assert (not found.reason) == (found.count <= bounds.most)
        assert bool(found.where) == (not np.array_equal(want, got, equal_nan=dtype.startswith("float")))


def test_the_place_of_the_largest_difference():
    want = np.float32([[1, 2, 3], [4, 5, 6]])
    got = want.copy()
    got[0, 1], got[1, 2] = 2.5, 7.5
    assert difference(want, got).where == "[1, 2]: 7.5, not 6.0"
    assert difference(want, np.where(want == 3, np.nan, got).astype(np.float32)).where == "[0, 2]: nan, not 3.0"
    assert difference(np.array(["a", "b"], object), np.array(["a", "c"], object)).where == "[1]: c, not b"
    assert not difference(want, want).where
    assert difference(np.float32(1), np.float32(2)).where == "[]: 2.0, not 1.0"


def test_bounds_without_numbers_leave_the_rule():
    want, got = np.float32([1, 1, 1]), np.float32([1, 1 + 5e-6, 1.1])
    assert difference(want, got).count == 1
    assert not difference(want, got, bounds=Bounds(most=1)).reason
    assert difference(want, got, bounds=Bounds(rtol=0.0)).count == 2


@pytest.mark.parametrize(("name", "value"), [("atol", -1.0), ("rtol", np.nan), ("most", -1)])
def test_bounds_are_numbers_from_0_on(name, value):
    with pytest.raises(ValueError, match="expected a number from 0 on"):
        Bounds(**{name: value})
