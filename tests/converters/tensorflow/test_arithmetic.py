"""Standard operators for which tf2onnx's models give other results than TensorFlow, or ONNX Runtime other shapes."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from support.tensorflow_functions import FLOATS, SIGNED, UNSIGNED, by_name, function  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402


@pytest.mark.parametrize("dtype", [*SIGNED, *FLOATS], ids=by_name)
def test_quotients_are_rounded_down(agree, dtype):
    @function(([None], dtype), ([None], dtype))
    def divide(x, y):
        return tf.math.floordiv(x, y), tf.math.floormod(x, y)

    x = np.array([7, -7, 7, -7, 6, -6, 6, -6, 0], dtype.as_numpy_dtype)
    agree(divide, x, np.array([3, 3, -3, -3, 3, 3, -3, -3, 3], dtype.as_numpy_dtype))
    agree(divide, x[:0], x[:0])


@pytest.mark.parametrize("dtype", UNSIGNED, ids=by_name)
def test_quotients_of_unsigned_integers(agree, dtype):
    @function(([None], dtype), ([], dtype))
    def divide(x, y):
        return tf.math.floordiv(x, y), tf.math.floormod(x, y)

    agree(divide, np.array([0, 6, 7, dtype.max], dtype.as_numpy_dtype), np.array(3, dtype.as_numpy_dtype))


def test_quotients_of_the_smallest_integer(agree):
    @function(
        ([None], tf.int64),
    )
    def divide(x):
        return x // 7, x % 7, x // -7, x % -7

    agree(divide, np.array([-(2**63), 2**63 - 1]))


def test_remainders_of_fractions_and_large_numbers(agree):
    @function(([None], tf.float64), ([None], tf.float64))
    def rest(x, y):
        return tf.math.floormod(x, y)

    agree(rest, np.array([1e17, -1e17, 5.5, -5.5, np.inf]), np.array([3.0, 3.0, 2.5, 2.5, 1.0]))


@pytest.mark.parametrize("index", [tf.int32, tf.int64], ids=by_name)
@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED, *FLOATS], ids=by_name)
def test_scatter_nd_adds_up(agree, index, dtype):
    @function(([None, 1], index), ([None, 2], dtype), ([2], index))
    def scatter(indices, updates, shape):
        return tf.scatter_nd(indices, updates, shape)

    kinds = index.as_numpy_dtype, dtype.as_numpy_dtype
    shape = np.array([4, 2], kinds[0])
    agree(scatter, np.array([[1], [1], [3]], kinds[0]), np.arange(1, 7).reshape(3, 2).astype(kinds[1]), shape)
    agree(scatter, np.zeros((0, 1), kinds[0]), np.zeros((0, 2), kinds[1]), shape)


def test_scatter_nd_of_elements(agree):
    @function(([None, 2], tf.int64), ([None], tf.float32))
    def scatter(indices, updates):
        return tf.scatter_nd(indices, updates, [2, 3])

    agree(scatter, np.array([[0, 1], [1, 2], [0, 1]]), np.array([1.0, 2.0, 4.0], np.float32))


def test_scatter_nd_of_booleans(agree):
    """One that is set is enough."""

    @function(([None, 1], tf.int64), ([None], tf.bool))
    def scatter(indices, updates):
        return tf.scatter_nd(indices, updates, [4])

    agree(scatter, np.array([[1], [1], [3], [0]]), np.array([True, True, True, False]))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32], ids=by_name)
def test_erfc(run, dtype):
    @function(([None], dtype))
    def rest(x):
        return {"y": tf.math.erfc(x)}

    x = np.linspace(-4, 4, 33).astype(dtype.as_numpy_dtype)
    got, want = run(convert(rest), x=x)["y"], rest(x)["y"].numpy()
    assert got.dtype == want.dtype
    tolerance = 2e-7 if dtype == tf.float32 else 4e-3
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=tolerance, atol=tolerance)


def test_erfc_of_double_is_refused():
    rest = function(([None], tf.float64))(lambda x: tf.math.erfc(x))
    with pytest.raises(ConversionError, match="ONNX Runtime has no error function of double"):
        convert(rest)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64], ids=by_name)
@pytest.mark.parametrize("of", [tf.math.log1p, tf.math.expm1], ids=lambda f: f.__name__)
def test_log1p_and_expm1_keep_the_digits_of_small_numbers(run, of, dtype):
    @function(([None], dtype))
    def computed(x):
        return {"y": of(x)}

    ends = [0.0, -0.0, -1.0, -2.0, np.inf, -np.inf, np.nan, 88.0, 200.0, -200.0, 3e4, 1e38]
    with np.errstate(over="ignore"):
        x = np.concatenate([ends, *(np.outer([-1, 1], 10.0 ** np.linspace(-12, 1.7, 200)))]).astype(
            dtype.as_numpy_dtype
        )
    got, want = run(convert(computed), x=x)["y"], computed(x)["y"].numpy()
    assert got.dtype == want.dtype
    digits = {tf.float16: 11, tf.bfloat16: 8, tf.float32: 24, tf.float64: 53}[dtype]
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=8 * 2.0**-digits, atol=0)


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64], ids=by_name)
def test_l2_loss(run, dtype):
    loss = function(([None, 3], dtype))(lambda x: {"y": tf.nn.l2_loss(x)})
    for x in (np.arange(12).reshape(4, 3), np.zeros((0, 3))):
        got = run(convert(loss), x=x.astype(dtype.as_numpy_dtype))["y"]
        assert got.shape == ()
        np.testing.assert_allclose(got, loss(tf.constant(x, dtype))["y"].numpy(), rtol=1e-3)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=by_name)
@pytest.mark.parametrize("of", [tf.math.multiply_no_nan, tf.math.xdivy, tf.math.xlogy], ids=lambda f: f.__name__)
def test_zero_times_what_is_not_finite(run, of, dtype):
    computed = function(([None, 1], dtype), ([None], dtype))(lambda x, y: {"z": of(x, y)})
    numbers = np.array([0, -0.0, 1, -1, 0.5, np.inf, -np.inf, np.nan, 3], dtype.as_numpy_dtype)
    got, want = (
        run(convert(computed), x=numbers[:, None], y=numbers)["z"],
        computed(numbers[:, None], numbers)["z"].numpy(),
    )
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float32, tf.float64], ids=by_name)
def test_truncated_remainders(agree, dtype):
    x, y = (np.array(v, dtype.as_numpy_dtype) for v in ([7, -7, 7, -7, 6, 0], [3, 3, -3, -3, 3, 5]))
    agree(function(([None], dtype), ([None], dtype))(lambda x, y: tf.truncatemod(x, y)), x, y)


def test_nan_is_searched_behind_all_others(agree):
    for side in ("left", "right"):
        search = function(([None], tf.float32))(
            lambda x, side=side: tf.searchsorted([-1.0, 0.0, 0.0, 1.0], x, side=side)
        )
        agree(search, np.float32([np.nan, np.inf, -np.inf, 0, -0.0, 1]))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float32, tf.float64], ids=by_name)
def test_searchsorted(agree, dtype, side):
    @function(([None], dtype))
    def search(x):
        return tf.searchsorted(tf.constant([1, 3, 3, 5], dtype), x, side=side, out_type=tf.int64)

    agree(search, np.array([0, 1, 2, 3, 4, 5, 9], dtype.as_numpy_dtype))
    agree(search, np.zeros(0, dtype.as_numpy_dtype))


def test_searchsorted_row_by_row(agree):
    @function(([None, 3], tf.float32), ([None, 2], tf.float32))
    def search(limits, x):
        return tf.searchsorted(limits, x)

    agree(search, np.array([[0, 1, 2], [5, 6, 7]], np.float32), np.array([[1.5, -1], [5, 9]], np.float32))


def test_reductions_of_nothing_along_the_last_axis(agree):
    """ONNX Runtime does not reduce an empty tensor along a negative axis."""

    @function(([None, 3, 4], tf.float32))
    def reduce(x):
        return tf.reduce_sum(x, -1), tf.reduce_max(x, [-1, -2]), tf.argmax(x, -1), tf.reduce_mean(x, 2, keepdims=True)

    agree(reduce, np.zeros((0, 3, 4), np.float32))
    agree(reduce, np.arange(24, dtype=np.float32).reshape(2, 3, 4))


def test_the_size_of_an_empty_batch_is_not_a_copied_size(agree):
    @function(([None, 2], tf.float32), ([None], tf.int64))
    def reshape(x, like):
        return tf.reshape(x, tf.concat([[2], tf.shape(like)], 0))

    agree(reshape, np.zeros((0, 2), np.float32), np.zeros(0, np.int64))
    agree(reshape, np.zeros((3, 2), np.float32), np.zeros(3, np.int64))


def test_a_shape_that_is_computed_from_the_tensor_itself(agree):
    """tf2onnx writes such sizes as 0 and -1, which is wrong where a 0 means size 0."""

    @function(([None, None, 4], tf.float32))
    def heads(x):
        rows, columns = tf.shape(x)[0], tf.shape(x)[1]
        return tf.reshape(x, [rows, columns, 2, 2]), tf.reshape(x, [rows * columns, 4])

    agree(heads, np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    agree(heads, np.zeros((0, 3, 4), np.float32))
    agree(heads, np.zeros((2, 0, 4), np.float32))


@pytest.mark.slow
class TestLoops:
    """TensorFlow counts a loop in int32, ONNX in int64."""

    def test_map_fn(self, agree):
        @function(([None, 3], tf.float32))
        def reduce(x):
            return tf.map_fn(lambda row: tf.math.unsorted_segment_sum(row, tf.constant([0, 1, 0]), 2), x)

        agree(reduce, np.arange(6, dtype=np.float32).reshape(2, 3))

    @pytest.mark.parametrize("cell", [keras.layers.GRU, keras.layers.LSTM], ids=lambda layer: layer.__name__)
    @pytest.mark.parametrize("mask", [True, False])
    def test_recurrent_layers(self, cell, mask):
        ids = keras.Input((None,), dtype="int64", name="ids")
        model = keras.Model(ids, cell(3)(keras.layers.Embedding(5, 2, mask_zero=mask)(ids)))
        (record,) = verify(model, convert(model))
        assert (record.ok, record.batches, record.note) == (True, 7, "")

    @pytest.mark.parametrize("cell", [keras.layers.GRU, keras.layers.SimpleRNN], ids=lambda layer: layer.__name__)
    def test_recurrent_layers_over_a_known_number_of_steps(self, cell):
        steps = keras.Input((4, 2), name="steps")
        model = keras.Model(steps, cell(3)(steps))
        (record,) = verify(model, convert(model))
        assert record.ok, record.note


@pytest.mark.parametrize("source", [tf.bool, tf.int32, tf.int64, *FLOATS], ids=by_name)
@pytest.mark.parametrize("target", [tf.bool, tf.int32, tf.int64, *FLOATS], ids=by_name)
def test_casts_that_would_cut_bits_off(agree, tmp_path, source, target):
    """Truncate says something of floats that lose bits of their fraction, and nothing of others."""

    @function(([None], source))
    def cast(x):
        return tf.raw_ops.Cast(x=x, DstT=target, Truncate=True)

    widths = {tf.bfloat16: 7, tf.float16: 10, tf.float32: 23, tf.float64: 52}
    if source in widths and target in widths and widths[target] < widths[source]:
        tf.saved_model.save(tf.Module(), str(tmp_path), signatures=cast)
        with pytest.raises(ConversionError, match="Truncate = True, which cuts bits off"):
            convert(tmp_path)
    else:
        agree(cast, np.array([0, 1, 3, 100], source.as_numpy_dtype))
