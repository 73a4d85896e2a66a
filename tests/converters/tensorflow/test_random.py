"""Random numbers: others than TensorFlow draws, of the same distributions; verification does not call them equal."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import function  # noqa: E402

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402

DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64]


def drawn(source, *feeds):
    session = onnx_sparse.InferenceSession(convert(source))
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, map(np.asarray, feeds), strict=True)))


@function(([2], tf.int32))
def floats(shape):
    return [draw(shape, dtype=dtype) for draw in (tf.random.uniform, tf.random.normal) for dtype in DTYPES]


def test_floats():
    results = [result.astype(np.float64) for result in drawn(floats, np.array([100, 50], np.int32))]
    for k, numbers in enumerate(results):
        mean, deviation = (0.5, 12**-0.5) if k < len(DTYPES) else (0, 1)
        assert numbers.shape == (100, 50)
        assert abs(numbers.mean() - mean) < 0.06
        assert abs(numbers.std() - deviation) < 0.04
        assert k >= len(DTYPES) or (numbers.min() >= 0 and numbers.max() < 1)
    assert [result.dtype for result in drawn(floats, np.zeros(2, np.int32))] == [d.as_numpy_dtype for d in DTYPES] * 2


def test_scalars():
    @function()
    def scalars():
        return tf.random.uniform([]), tf.random.normal([], 5.0, 0.1), tf.random.uniform([], 2, 4, tf.int32)

    uniform, normal, integer = drawn(scalars)
    assert 0 <= uniform < 1
    assert 4 < normal < 6
    assert integer in (2, 3)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda dtype: dtype.name)
def test_integers(dtype):
    @function(([None], tf.int32), ([], dtype), ([], dtype))
    def integers(shape, low, high):
        limit = dtype.max
        return tf.random.uniform(shape, low, high, dtype), tf.random.uniform(shape, limit - 2, limit, dtype)

    bounds = np.array([-3, 4], dtype.as_numpy_dtype)
    few, great = drawn(integers, np.array([20, 50], np.int32), *bounds)
    assert few.dtype == great.dtype == dtype.as_numpy_dtype
    assert few.shape == (20, 50)
    assert sorted(set(few.ravel())) == list(range(-3, 4))
    assert set(great.ravel()) == {dtype.max - 2, dtype.max - 1}


@pytest.mark.parametrize("shape", [(40,), (40, 2), (0, 3), (1,)], ids=str)
def test_shuffled_rows(shape):
    rows = np.arange(np.prod(shape)).reshape(shape).astype(np.int64)
    (shuffled,) = drawn(function(([None, *shape[1:]], tf.int64))(tf.random.shuffle), rows)
    np.testing.assert_array_equal(np.sort(shuffled, 0), rows)
    assert len(rows) < 2 or (shuffled != rows).any()


def test_classes():
    @function(([None, 3], tf.float32))
    def classes(logits):
        return tf.random.categorical(logits, 1000)

    (found,) = drawn(classes, np.log(np.array([[0.25, 0.25, 0.5], [1, 1e-9, 1e-9]], np.float32)))
    assert found.dtype == np.int64
    assert np.abs(np.bincount(found[0], minlength=3) / 1000 - [0.25, 0.25, 0.5]).max() < 0.1
    assert not found[1].any()


def test_numbers_are_independent_unless_a_seed_says_otherwise():
    @function()
    def numbers():
        unseeded = [tf.random.uniform([9]) for _ in range(2)]
        return *unseeded, tf.random.normal([9], seed=3), tf.random.normal([9], seed=4)

    model = convert(numbers)
    sessions = [onnx_sparse.InferenceSession(model) for _ in range(2)]
    first, second, seeded, other = sessions[0].run(None, {})
    again = sessions[1].run(None, {})
    assert (first != second).any()
    assert (seeded != other).any()
    np.testing.assert_array_equal(seeded, again[2])
    later = sessions[0].run(None, {})
    assert (first != later[0]).any()
    assert (seeded != later[2]).any()


def test_dropout_is_what_it_is_in_tensorflow():
    @function(([None, 4], tf.float32), ([], tf.float32))
    def dropped(x, rate):
        return tf.nn.dropout(x, 0.25), tf.nn.dropout(x, rate)

    x = np.ones((1000, 4), np.float32)
    some, none = drawn(dropped, x, np.float32(0))
    assert 0.2 < (some == 0).mean() < 0.3
    np.testing.assert_allclose(some[some != 0], 4 / 3, rtol=1e-6)
    np.testing.assert_array_equal(none, x)


def test_verification_does_not_compare_random_values():
    @function(([None, 3], tf.float32))
    def noisy(x):
        noise = tf.cond(tf.reduce_sum(x) > 1e30, lambda: x, lambda: tf.random.normal(tf.shape(x)))
        return {"plain": x + 1, "noisy": (x + noise) * 2}

    records = {record.output: record for record in verify(noisy, convert(noisy))}
    assert records["plain"].ok
    assert records["noisy"].verdict == "random"
    assert records["noisy"].note == "random values: only types and shapes are compared, and equal"


def test_verification_compares_the_shapes_of_random_values():
    @function(([None, 3], tf.float32))
    def noise(x):
        return tf.random.normal(tf.shape(x))

    @function(([None, 3], tf.float32))
    def more(x):
        return tf.random.normal(tf.shape(x) + 1)

    (record,) = verify(noise, convert(more))
    assert record.verdict == "differs"
    assert "shape is" in record.note
