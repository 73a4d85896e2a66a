"""Eighteen cases in which tf2onnx alone gives other results than TensorFlow, raises an error, or takes forever."""

from __future__ import annotations

import resource

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402

pytestmark = pytest.mark.slow

INT, FLOAT = tf.int64, tf.float32
TABLE = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
INDICES, IDS, SHAPE = np.array([[0, 1], [2, 0], [2, 3], [3, 1]]), np.array([3, 1, 5, 0]), np.array([5, 4])
GAPS = np.array([0, 0, 3], np.int32)
NO_IDS = np.zeros(0, np.int32)


def function(*specs):
    """Decorate a function of tensors `(shape, dtype)`."""
    return lambda body: tf.function(body, input_signature=[tf.TensorSpec(shape, dtype) for shape, dtype in specs])


def run(function, *feeds):
    """The results of the converted function, or whatever ONNX Runtime raises."""
    session = onnx_sparse.InferenceSession(convert(function))
    return session.run(None, dict(zip([i.name for i in session.get_inputs()], feeds, strict=True)))


def agree(function, *feeds):
    expected = [value.numpy() for value in tf.nest.flatten(function(*map(tf.constant, feeds)))]
    for got, want in zip(run(function, *feeds), expected, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)


def refused(function, *feeds, match):
    """Assert that both raise."""
    with pytest.raises(tf.errors.InvalidArgumentError):
        function(*map(tf.constant, feeds))
    with pytest.raises(Exception, match=match):
        run(function, *feeds)


@function(([None, 2], INT), ([None], INT), ([2], INT))
def fill(indices, ids, shape):
    return tf.raw_ops.SparseFillEmptyRows(indices=indices, values=ids, dense_shape=shape, default_value=np.int64(7))[:4]


@function(([None, 4], FLOAT), ([None], tf.int32))
def by_segment(data, ids):
    reductions = (tf.math.segment_sum, tf.math.segment_mean, tf.math.segment_max, tf.math.segment_min)
    return *(reduce(data, ids) for reduce in reductions), tf.math.segment_prod(data, ids)


@function(([None, 4], FLOAT), ([None], INT), ([None], tf.int32))
def looked_up(table, ids, segments):
    reductions = (tf.sparse.segment_sum, tf.sparse.segment_mean, tf.sparse.segment_sqrt_n)
    return [reduce(table, ids, segments) for reduce in reductions]


@function(([None, 4], FLOAT), ([None], INT))
def in_any_order(data, ids):
    reductions = (tf.math.unsorted_segment_sum, tf.math.unsorted_segment_max, tf.math.unsorted_segment_min)
    return *(reduce(data, ids, 5) for reduce in reductions), tf.math.unsorted_segment_prod(data, ids, 5)


@function(([None, 2], INT), ([None], INT), ([2], INT))
def safe_lookup(indices, ids, shape):
    return tf.nn.safe_embedding_lookup_sparse(tf.constant(TABLE), tf.SparseTensor(indices, ids, shape))


def test_01_filled_rows_are_in_their_place():
    agree(fill, INDICES, IDS, SHAPE)


def test_02_the_map_to_the_filled_entries_is_there():
    unordered = INDICES[[3, 0, 2, 1]]
    agree(fill, unordered, IDS, SHAPE)


def test_03_a_negative_row_is_an_error():
    refused(fill, INDICES - [[3, 0]], IDS, SHAPE, match="-3")


def test_04_the_mean_of_nothing_is_0():
    agree(by_segment, TABLE[:3], GAPS)
    agree(looked_up, TABLE, np.array([1, 5, 2]), GAPS)


def test_05_the_maximum_of_nothing_is_0():
    assert not run(by_segment, TABLE[:3], GAPS)[2][1:3].any()


def test_06_the_maximum_of_nothing_in_any_order_is_the_lowest_number():
    agree(in_any_order, TABLE[:3], np.array([4, 0, 4]))


def test_07_negative_ids_are_dropped():
    agree(in_any_order, TABLE[:3], np.array([4, -1, 4]))


def test_08_no_ids_make_no_segments():
    agree(by_segment, TABLE[:0], NO_IDS)
    agree(looked_up, TABLE, NO_IDS.astype(np.int64), NO_IDS)
    agree(in_any_order, TABLE[:0], NO_IDS.astype(np.int64))


def test_09_means_of_doubles_with_a_number_of_segments():
    @function(([None, 4], tf.float64), ([None], INT), ([None], tf.int32))
    def mean(table, ids, segments):
        return tf.sparse.segment_mean(table, ids, segments, num_segments=6)

    agree(mean, TABLE.astype(np.float64), np.array([1, 5, 2]), GAPS)


@pytest.mark.parametrize("dtype", [tf.uint8, tf.int8, tf.uint16, tf.int16], ids=lambda t: t.name)
def test_10_small_integers(dtype):
    @function(([None, 4], dtype), ([None], tf.int32))
    def reduced(data, ids):
        return tf.math.segment_sum(data, ids), tf.math.segment_mean(data, ids), tf.math.segment_max(data, ids)

    agree(reduced, np.arange(100, 112).reshape(3, 4).astype(dtype.as_numpy_dtype), GAPS)


def test_11_ids_of_two_dimensions():
    @function(([2, 3, 4], FLOAT), ([2, 3], INT))
    def reduced(data, ids):
        return tf.math.unsorted_segment_sum(data, ids, 4)

    agree(reduced, TABLE.reshape(2, 3, 4), np.array([[3, 0, 3], [1, -1, 3]]))


def test_12_unsorted_segments_and_negative_indices_are_errors():
    refused(by_segment, TABLE[:3], GAPS[::-1].copy(), match="segment_ids")
    refused(looked_up, TABLE, np.array([1, -5, 2]), GAPS, match="indices")


def test_13_ragged_ids():
    @function(([None], INT), ([None], INT))
    def lookup(ids, splits):
        rows = tf.RaggedTensor.from_row_splits(ids, splits, validate=False)
        return tf.nn.safe_embedding_lookup_sparse(tf.constant(TABLE), rows)

    agree(lookup, IDS, np.array([0, 0, 3, 3, 4]))


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0), (0, 0)], ids=str)
def test_14_batches_without_any_id(shape):
    agree(safe_lookup, np.zeros((0, 2), np.int64), np.zeros(0, np.int64), np.array(shape))


def test_15_a_reshape_to_another_number_of_elements_is_an_error():
    @function(([None, 2], INT), ([2], INT), ([2], INT))
    def reshaped(indices, shape, new_shape):
        return tuple(tf.raw_ops.SparseReshape(input_indices=indices, input_shape=shape, new_shape=new_shape))

    agree(reshaped, np.array([[9, 1]]), np.array([2, 3]), np.array([3, 2]))  # coordinates are not checked
    refused(reshaped, INDICES, SHAPE, np.array([3, -1]), match="SparseReshape")


def test_16_one_hot_of_a_missing_category():
    agree(function(([None], INT))(lambda ids: tf.one_hot(ids, 4)), np.array([2, -1, 4]))


def test_17_inputs_of_unknown_rank():
    @tf.function(input_signature=[tf.TensorSpec(None, INT, "ids"), tf.TensorSpec([2], INT)])
    def unknown(ids, shape):
        return ids + shape[0]

    with pytest.raises(ConversionError, match="input ids has no known rank; say its shape with its name"):
        convert(unknown)


def test_18_one_long_row_costs_what_its_ids_cost():
    """2000 rows, one of 100,000 ids: a grid of rows x longest row takes 6 GB and 20 seconds."""
    table = np.random.default_rng(1).standard_normal((50_000, 3)).astype(np.float32)

    @function(([None, 2], INT), ([None], INT), ([2], INT))
    def lookup(indices, ids, shape):
        return tf.nn.safe_embedding_lookup_sparse(tf.constant(table), tf.SparseTensor(indices, ids, shape))

    rows = np.sort(np.r_[np.arange(2000), np.full(99_999, 1000)])
    indices = np.stack([rows, np.arange(len(rows)) - np.searchsorted(rows, rows)], axis=1)
    ids = np.random.default_rng(2).integers(0, 50_000, len(rows))
    feeds = (indices, ids, np.array([2000, 100_000]))
    expected = lookup(*map(tf.constant, feeds)).numpy()
    session = onnx_sparse.InferenceSession(convert(lookup))
    named = dict(zip([i.name for i in session.get_inputs()], feeds, strict=True))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (actual,) = session.run(None, named)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
    np.testing.assert_array_equal(actual, expected)
