"""Ragged tensors in TensorFlow's graphs: which row each value is of, without a matrix of rows x longest row."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse.converters.tensorflow import convert  # noqa: E402

TABLE = tf.Variable(np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32))
SPLITS = {
    "rows of all lengths": [0, 3, 3, 4, 9],
    "an empty row first": [0, 0, 2],
    "empty rows last": [0, 2, 2, 2],
    "empty rows only": [0, 0, 0],
    "one row": [0, 5],
    "no row": [0],
}
MATRIX = {"Tile", "Less", "Range"}  # of the mask of rows x longest row


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
    [(False, {}, 13), (True, {}, 16), (True, {"default_id": 3}, 16)],
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
