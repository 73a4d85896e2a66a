"""Crossed features get TensorFlow's own buckets: strings and integers, sparse and dense, any number per row."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import function  # noqa: E402

keras = pytest.importorskip("keras")

from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402

WORDS = ["a", "grün", "a word of twenty two.", "long " * 30, ""]
STRINGS, INTEGERS = (tf.SparseTensorSpec([None, None], dtype) for dtype in (tf.string, tf.int64))
WORD, NUMBER = (tf.TensorSpec([None, 1], dtype) for dtype in (tf.string, tf.int64))


def crossing(*specs, buckets=1000, **options):
    """A tf.function that crosses features of the given kinds."""

    def cross(*features):
        made = tf.sparse.cross_hashed(list(features), buckets, **options)
        return {"indices": made.indices, "values": made.values, "shape": made.dense_shape}

    return tf.function(cross, input_signature=list(specs))


@pytest.mark.parametrize(
    "specs",
    [
        (STRINGS, STRINGS),
        (STRINGS, INTEGERS),
        (INTEGERS, INTEGERS, INTEGERS),
        (STRINGS, NUMBER),
        (tf.TensorSpec([None, None], tf.string), tf.TensorSpec([None, 2], tf.int64), INTEGERS),
        (STRINGS,),
    ],
    ids=["strings", "strings and integers", "three", "sparse and dense", "wide", "one"],
)
def test_sparse_features(specs):
    """Every kind of batch: rows without features, no features, one row, no rows."""
    cross = crossing(*specs)
    for record in verify(cross, convert(cross), batch_count=10):
        assert record.ok, record.note
        assert not record.note


def test_one_feature_in_each_row_is_crossed_in_place():
    cross = crossing(WORD, NUMBER, buckets=0)
    words, numbers = np.array(WORDS, object)[:, None], np.array([[0], [-1], [2**62], [-(2**63)], [7]])
    model = agree_by_name(cross, words, numbers)
    assert not {node.op_type for node in model.graph.node} & {"ScatterElements", "CumSum"}


def agree_by_name(function, *feeds):
    model = convert(function)
    names = [value.name for value in model.graph.input]
    records = verify(function, model, feeds=dict(zip(names, feeds, strict=True)))
    assert all(record.ok for record in records), [record.note for record in records]
    return model


def test_every_bit_of_a_fingerprint_counts():
    """The upper bits of a string's fingerprint need a second hash; a thousand words have all of their values."""
    cross = crossing(WORD, buckets=0)
    agree_by_name(cross, np.array([f"user {k}" for k in range(1000)], object)[:, None])


def test_a_key_of_its_own():
    agree_by_name(crossing(WORD, NUMBER, hash_key=17), np.array([["a"], ["b"]], object), np.array([[1], [2]]))


@pytest.mark.parametrize("spec", [WORD, NUMBER], ids=lambda s: s.dtype.name)
def test_keras_layer(agree, spec):
    layer = keras.layers.HashedCrossing(11)
    cross = tf.function(lambda x, y: layer((x, y)), input_signature=[spec, spec])
    given = np.array(["a", "b", ""], object) if spec.dtype == tf.string else np.array([1, -5, 2**40])
    agree(cross, given[:, None], given[::-1, None])
    agree(cross, given[:0, None], given[:0, None])


@pytest.mark.parametrize(
    "specs",
    [(WORD, NUMBER), (STRINGS, INTEGERS, STRINGS), (STRINGS, NUMBER), (WORD,)],
    ids=["dense", "sparse", "both", "one"],
)
def test_features_joined_as_text(specs):
    def cross(*features):
        options = {"separator": ", "} if len(specs) == 2 else {}
        made = tf.sparse.cross(list(features), **options)
        return {"indices": made.indices, "hashes": tf.strings.to_hash_bucket_fast(made.values, 2**63 - 1)}

    crossed = tf.function(cross, input_signature=list(specs))
    for record in verify(crossed, convert(crossed), batch_count=10):
        assert record.ok, record.note
        assert not record.note


def test_crosses_of_ragged_tensors(agree):
    """With ragged, sparse and dense columns in any order, with keys, without features and without rows."""
    ragged = ([None], tf.int64), ([None], tf.string), ([None], tf.int64), ([None], tf.int64)

    @function(*ragged, ([None, 2], tf.int64), ([None], tf.string), ([2], tf.int64), ([None, None], tf.int64))
    def crossed(splits, words, more_splits, numbers, indices, sparse, shape, dense):
        first = tf.RaggedTensor.from_row_splits(words, splits, validate=False)
        second = tf.RaggedTensor.from_row_splits(numbers, more_splits, validate=False)
        third, results = tf.SparseTensor(indices, sparse, shape), []
        cases = [([first, second], 0, None), ([first, third, dense], 100, None), ([dense, first], 7, 99)]
        for columns, buckets, key in (*cases, ([third, second], 0, 1), ([second], 5, None)):
            cross = tf.ragged.cross_hashed(columns, buckets, hash_key=key)
            results += [cross.values, cross.row_splits]
        joined = tf.ragged.cross([first, third, second])
        results += [joined.values, joined.row_splits]
        return tuple(results)

    words = np.array(["red", "", "日本語", "red", "a"], object)
    splits, more_splits, numbers = np.array([0, 2, 2, 5]), np.array([0, 1, 3, 4]), np.array([5, -6, 7, 2**62])
    indices, shape = np.array([[0, 0], [0, 1], [2, 1]]), np.array([3, 2])
    dense = np.arange(6).reshape(3, 2)
    agree(crossed, splits, words, more_splits, numbers, indices, words[:3], shape, dense)
    none = words[:0], numbers[:0], indices[:0]
    agree(crossed, splits * 0, none[0], more_splits * 0, none[1], none[2], none[0], shape, dense[:, :0])
    agree(crossed, splits[:1], none[0], splits[:1], none[1], none[2], none[0], np.array([0, 2]), dense[:0])
