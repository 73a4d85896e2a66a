"""Ragged tensors in TensorFlow's graphs: the row of each value, without a matrix of rows x longest row."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import function  # noqa: E402

from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402

TABLE = tf.Variable(np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32))
SPLITS = {
    "rows of all lengths": [0, 3, 3, 4, 9],
    "an empty row first": [0, 0, 2],
    "empty rows last": [0, 2, 2, 2],
    "empty rows only": [0, 0, 0],
    "one row": [0, 5],
    "no row": [0],
}
MATRIX = {"Tile", "Less", "Range"}  # the operators that make the mask of rows x longest row


def of_rows(splits=tf.int64):
    """A tf.function of values and row splits."""
    specs = [tf.TensorSpec([None], tf.int64, "values"), tf.TensorSpec([None], splits, "splits")]
    return tf.function(input_signature=specs)


@of_rows()
def value_rowids(values, splits):
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False).value_rowids()


@of_rows(tf.int32)
def value_rowids_of_int32(values, splits):
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False).value_rowids()


@of_rows()
def row_sums(values, splits):
    return tf.reduce_sum(tf.RaggedTensor.from_row_splits(values, splits, validate=False), axis=1)


def kinds(model):
    return {node.op_type for node in model.graph.node}


def reasons(function):
    said = []
    convert(function, explain=said.append)
    return {attempt.rule: attempt.reason for attempt in said[0].declined}


@pytest.mark.parametrize("splits", SPLITS.values(), ids=SPLITS)
class TestRows:
    def test_of_values(self, agree, splits):
        model = agree(value_rowids, np.arange(splits[-1]), np.array(splits))
        assert not kinds(model) & MATRIX

    def test_of_values_with_int32_splits(self, agree, splits):
        model = agree(value_rowids_of_int32, np.arange(splits[-1]), np.array(splits, np.int32))
        assert not kinds(model) & MATRIX

    def test_are_reduced(self, agree, splits):
        agree(row_sums, np.arange(splits[-1]), np.array(splits))


class TestOtherRepetitions:
    def test_by_other_lengths_stay(self, agree):
        @of_rows()
        def repeated(values, splits):
            return tf.repeat(tf.range(tf.size(splits)), splits)

        assert kinds(agree(repeated, np.arange(3), np.array([2, 0, 3]))) >= MATRIX
        assert "lengths of rows between splits" in reasons(repeated)["rows-of-splits"]

    def test_of_other_numbers_stay(self, agree):
        @of_rows()
        def repeated(values, splits):
            return tf.repeat(values, splits[1:] - splits[:-1])

        assert kinds(agree(repeated, np.array([7, 5]), np.array([0, 3, 4]))) >= MATRIX
        assert "numbers of the rows" in reasons(repeated)["rows-of-splits"]

    def test_of_some_rows_stay(self, agree):
        @of_rows()
        def repeated(values, splits):
            lengths = splits[1:] - splits[:-1]
            return tf.repeat(tf.range(tf.size(splits) - 2), lengths[:-1])

        assert kinds(agree(repeated, np.arange(3), np.array([0, 3, 4, 9]))) >= MATRIX


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize(
    ("safe", "options", "count"),
    [(False, {}, 4), (True, {}, 1), (True, {"default_id": 3}, 1)],
    ids=["plain", "safe", "safe default_id"],
)
def test_node_counts_of_lookups(safe, options, count, combiner):
    """TensorFlow's graph has 37, 76 and 69 nodes."""

    @of_rows()
    def lookup(values, splits):
        ragged = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        call = tf.nn.safe_embedding_lookup_sparse if safe else tf.nn.embedding_lookup_sparse
        return call(TABLE, ragged, combiner=combiner, **({} if safe else {"sp_weights": None}), **options)

    assert len(convert(lookup).graph.node) == count


TYPES = (tf.float16, tf.bfloat16, tf.float32, tf.int8, tf.uint64, tf.bool, tf.string)


def numbers(dtype, count):
    """`count` values of a type."""
    if dtype == tf.string:
        return np.array([f"wört {k}".encode() for k in range(count)], object)
    return (np.arange(count) % 2 == 0) if dtype == tf.bool else np.arange(1, count + 1).astype(dtype.as_numpy_dtype)


@pytest.mark.parametrize("splits", SPLITS.values(), ids=SPLITS)
class TestLayout:
    """Padded, sparse, and a slice of each row, for which TensorFlow counts positions in each row."""

    def test_padded(self, agree, splits):
        agree(padded, np.arange(splits[-1]), np.array(splits))

    def test_padded_to_a_shape(self, agree, splits):
        agree(padded_to_four, np.arange(splits[-1]), np.array(splits, np.int32))

    def test_sparse(self, agree, splits):
        agree(sparse, np.arange(splits[-1]), np.array(splits))

    def test_cut(self, agree, splits):
        agree(cut, np.arange(splits[-1]), np.array(splits))

    def test_reduced_across_rows(self, agree, splits):
        agree(column_sums, np.arange(splits[-1]), np.array(splits))


@of_rows()
def padded(values, splits):
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_tensor()


@of_rows(tf.int32)
def padded_to_four(values, splits):
    ragged = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
    return ragged.to_tensor(default_value=-1, shape=[None, 4]), ragged.to_tensor(shape=[2, 1])


@of_rows()
def sparse(values, splits):
    made = tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_sparse()
    return made.indices, made.values, made.dense_shape


@of_rows()
def cut(values, splits):
    ragged = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
    parts = [ragged[:, :2], ragged[:, -2:], ragged[:, 1:], ragged[:, ::2]]
    return [tensor for part in parts for tensor in (part.values, part.row_splits)]


@of_rows()
def column_sums(values, splits):
    return tf.reduce_sum(tf.RaggedTensor.from_row_splits(values, splits, validate=False), axis=0)


class TestPadded:
    @pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.name)
    def test_every_type(self, agree, dtype):
        @tf.function(input_signature=[tf.TensorSpec([None], dtype), tf.TensorSpec([], dtype)])
        def layout(values, default):
            return tf.RaggedTensor.from_row_splits(values, [0, 2, 2, 3], validate=False).to_tensor(default)

        given = numbers(dtype, 4)
        agree(layout, given[:3], given[3])

    def test_rows_by_their_numbers(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.int64)])
        def layout(values, rowids):
            return tf.RaggedTensor.from_value_rowids(values, rowids, nrows=4, validate=False).to_tensor()

        agree(layout, np.array([7, 8, 9]), np.array([0, 0, 2]))
        agree(layout, np.zeros(0, np.int64), np.zeros(0, np.int64))

    def test_values_that_are_vectors(self, agree):
        spec = tf.RaggedTensorSpec([None, None, 2], tf.float32, ragged_rank=1)
        layout = tf.function(lambda ragged: (ragged.to_tensor(), ragged.to_tensor([5.0, 6.0])), input_signature=[spec])
        model = convert(layout)
        (record, other) = verify(layout, model)
        assert record.ok, record.note
        assert other.ok, other.note

    def test_rows_side_by_side(self, agree):
        """TensorFlow does not tell the rank of the joined rows' values."""

        @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None], tf.int64)])
        def layout(values, splits):
            rows = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            joined = tf.concat([rows, rows], axis=1)
            return joined.to_tensor(), joined.to_tensor(shape=[None, 3]), tf.sparse.to_dense(joined.to_sparse())

        agree(layout, np.array([1, 2, 3], np.float32), np.array([0, 2, 2, 3]))

    def test_rows_in_rows(self):
        layout = tf.function(
            lambda ragged: {"dense": ragged.to_tensor(), "sparse": tf.sparse.to_dense(ragged.to_sparse())},
            input_signature=[tf.RaggedTensorSpec([None, None, None], tf.float32)],
        )
        for record in verify(layout, convert(layout)):
            assert record.ok, record.note


class TestRanges:
    @pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float32, tf.float64], ids=lambda t: t.name)
    def test_steps_of_all_signs(self, agree, dtype):
        spec = tf.TensorSpec([None], dtype)

        @tf.function(input_signature=[spec, spec, spec])
        def count(starts, limits, steps):
            made = tf.ragged.range(starts, limits, steps)
            return made.values, made.row_splits

        starts, limits, steps = [0, 5, 5, 3, 0, 0], [5, 0, 0, 3, -1, 6], [2, -2, 2, 1, 2, 3]
        agree(count, *(np.array(x, dtype.as_numpy_dtype) for x in (starts, limits, steps)))
        agree(count, *[np.zeros(0, dtype.as_numpy_dtype)] * 3)

    def test_of_scalars(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64)])
        def count(start, limits):
            made, single = tf.ragged.range(start, limits), tf.raw_ops.RaggedRange(starts=start, limits=5, deltas=2)
            return made.values, made.row_splits, *single

        agree(count, np.int64(1), np.array([0, 4, 2]))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda t: t.name)
@pytest.mark.parametrize("taken", [1, [2, 0, 2], [[2, 0], [1, 2]], [[[2], [0]]]], ids=str)
def test_rows_of_nested_ragged_tensors(agree, taken, dtype):
    """Each dimension of the indices but the last becomes one of the result; a scalar removes one."""
    more = np.ndim(taken) - 1

    @function(([None], dtype), ([None], dtype), ([None, 2], tf.string), ([None] * (more + 1), tf.int32))
    def gather(outer, inner, vals, indices):
        nested = tf.raw_ops.RaggedGather(
            params_nested_splits=[outer, inner], params_dense_values=vals, indices=indices, OUTPUT_RAGGED_RANK=2 + more
        )
        flat = tf.raw_ops.RaggedGather(
            params_nested_splits=[inner], params_dense_values=vals[:, 0], indices=indices, OUTPUT_RAGGED_RANK=1 + more
        )
        return (*nested[0], nested[1], *flat[0], flat[1])

    outer, inner = (np.array(s, dtype.as_numpy_dtype) for s in ([0, 2, 2, 5], [0, 1, 3, 3, 4, 6]))
    words, indices = np.array([f"word {k}" for k in range(12)], object).reshape(6, 2), np.array(taken, np.int32)
    agree(gather, outer, inner, words, indices)
    if more >= 0:
        agree(gather, outer, inner, words, indices[:0])
        agree(gather, outer, inner, words, indices[..., :0])
        agree(gather, outer[:1], inner[:1], words[:0], indices[:0])


def test_columns_that_differ_from_row_to_row(agree):
    """TensorFlow's graph chooses between branches by a rank that is known."""

    @function(([None], tf.int64), ([None], tf.int64))
    def gather(splits, columns):
        table = tf.constant([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
        ragged = tf.RaggedTensor.from_row_splits(columns, splits, validate=False)
        return tf.gather(table, ragged, batch_dims=1).to_tensor()

    agree(gather, np.array([0, 2, 2, 5]), np.array([0, 2, 1, 1, 0]))
    agree(gather, np.array([0, 0, 0, 0]), np.zeros(0, np.int64))


def test_row_splits_of_rows_given_by_ids(agree):
    """The outer rows are given by row splits, the inner ones by the row of each value."""

    @function(([None], tf.float32), ([None], tf.int64), ([None], tf.int64))
    def dense(values, inner, outer):
        rows = tf.RaggedTensor.from_value_rowids(values, inner, nrows=outer[-1], validate=False)
        return tf.RaggedTensor.from_row_splits(rows, outer, validate=False).to_tensor(-1.0)

    agree(dense, np.float32([1, 2, 3, 4]), np.array([0, 0, 2, 3]), np.array([0, 2, 2, 4]))
    for splits in ([0], [0, 0, 2]):
        agree(dense, np.float32([]), np.zeros(0, np.int64), np.array(splits))


@of_rows()
def dense_rows(values, splits):
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_tensor()


@pytest.mark.parametrize(
    "source", [value_rowids, value_rowids_of_int32, row_sums, dense_rows], ids=lambda f: f.__name__
)
def test_on_openvino(source):
    """It computes no shape of unknown rank: the number of values must be a vector of a known length."""
    pytest.importorskip("openvino")
    from support.openvino_runs import run_model

    model = convert(source)
    for splits in ([0, 3, 3, 4, 9], [0, 2]):
        kind = np.int32 if source is value_rowids_of_int32 else np.int64
        given = {"values": np.arange(splits[-1]), "splits": np.array(splits, kind)}
        (got,) = run_model(model, given)
        np.testing.assert_array_equal(got, source(*map(tf.constant, given.values())).numpy())
