"""Lookup tables: every type of key and value, missing keys, tables of Keras layers, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402

KEYS = {tf.string: ["red", "grün", ""], tf.int64: [10, -20, 2**40], tf.int32: [10, -20, 0]}
ASKED = {
    tf.string: np.array([["grün", "blue"], ["", "red"]], object),
    tf.int64: np.array([[-20, 11], [2**40, 10]]),
    tf.int32: np.array([[-20, 11], [0, 10]], np.int32),
}
VALUES = {
    tf.string: (["a", "ä", ""], "?"),
    tf.int64: ([1, 2**40, -3], -1),
    tf.int32: ([1, 2, -3], -1),
    tf.float32: ([0.1, -2.5, 3.0], np.nan),
    tf.float64: ([0.1, -2.5, 3.0], 1e300),
    tf.bool: ([True, False, True], False),
}
#: The pairs of key type and value type that a StaticHashTable supports on a CPU.
PAIRS = [
    *((tf.string, value) for value in VALUES),
    *((tf.int64, value) for value in (tf.string, tf.int64, tf.int32, tf.float32, tf.float64)),
    *((tf.int32, value) for value in (tf.string, tf.int32, tf.float32, tf.float64)),
]


def static_table(key, value):
    held, default = VALUES[value]
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(KEYS[key], key), tf.constant(held, value))
    return tf.lookup.StaticHashTable(initializer, tf.constant(default, value))


def looking_up(table, key):
    spec = tf.TensorSpec([None, None], key, "keys")
    return tf.function(lambda keys: {"values": table.lookup(keys)}, input_signature=[spec])


@pytest.mark.parametrize(("key", "value"), PAIRS, ids=lambda t: t.name)
def test_static_tables(agree, key, value):
    look_up = looking_up(static_table(key, value), key)
    agree(look_up, ASKED[key])
    agree(look_up, ASKED[key][:0])


@pytest.mark.parametrize("key", [tf.string, tf.int64], ids=lambda t: t.name)
def test_words_out_of_the_vocabulary_are_hashed(agree, key):
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(KEYS[key], key), tf.range(3, dtype=tf.int64))
    table = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets=5)
    agree(looking_up(table, key), ASKED[key])


def test_a_table_of_vectors(agree):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, [0.5, -0.5])
    table.insert(tf.constant([10, -20], tf.int64), tf.constant([[1.0, 2.0], [3.0, 4.0]]))
    agree(looking_up(table, tf.int64), ASKED[tf.int64])


def test_a_default_that_is_computed(agree):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    table.insert(tf.constant([10], tf.int64), tf.constant([7], tf.int64))
    specs = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64)]
    look_up = tf.function(
        lambda keys, default: tf.raw_ops.LookupTableFindV2(
            table_handle=table.resource_handle, keys=keys, default_value=default
        ),
        input_signature=specs,
    )
    agree(look_up, np.array([10, 11]), np.int64(5))


@pytest.mark.parametrize("key", [tf.string, tf.int64], ids=lambda t: t.name)
def test_an_empty_table(agree, key):
    table = tf.lookup.experimental.MutableHashTable(key, tf.int64, -7)
    agree(looking_up(table, key), ASKED[key])


LAYERS = {
    "integers": lambda: keras.layers.IntegerLookup(vocabulary=[10, -20]),
    "integers, hashed": lambda: keras.layers.IntegerLookup(vocabulary=[10, -20], num_oov_indices=3),
    "integers, multi_hot": lambda: keras.layers.IntegerLookup(vocabulary=[10, -20], output_mode="multi_hot"),
    "integers, count": lambda: keras.layers.IntegerLookup(vocabulary=[10, -20], output_mode="count"),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_keras_layers(agree, layer):
    layer = layer()
    encode = tf.function(lambda keys: layer(keys), input_signature=[tf.TensorSpec([None, 2], tf.int64)])
    agree(encode, ASKED[tf.int64])


def test_words_to_a_one_hot_vector(agree):
    """The rank of a table's result is known, which counting needs."""
    lookup = keras.layers.StringLookup(vocabulary=["red", "blue"])
    one_hot = keras.layers.CategoryEncoding(3, output_mode="one_hot")
    encode = tf.function(lambda words: one_hot(lookup(words)), input_signature=[tf.TensorSpec([None, 1], tf.string)])
    agree(encode, np.array([["blue"], ["green"]], object))


@pytest.mark.parametrize("lookups", [1, 2])
@pytest.mark.parametrize("between", ["abs", "cast", "reshape of a row"])
def test_what_is_computed_from_lookups_has_a_known_rank(agree, tmp_path, lookups, between):
    """A SavedModel does not hold the shapes that Keras sets; counting by row needs the rank."""
    module = tf.Module()
    pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(KEYS[tf.int64], tf.int64), tf.constant([1, 2, 3], tf.int64))
    module.first = tf.lookup.StaticHashTable(pairs, 0)
    pairs = tf.lookup.KeyValueTensorInitializer(tf.range(1, 3, dtype=tf.int64), tf.constant([4, 3], tf.int64))
    module.second = tf.lookup.StaticHashTable(pairs, 1)
    compute = {
        "abs": tf.abs,
        "cast": lambda x: tf.cast(tf.cast(x, tf.int32), tf.int64),
        "reshape of a row": lambda x: tf.expand_dims(x, 1)[:, 0],
    }[between]

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.int64, "keys")])
    def count(keys):
        found = compute(module.first.lookup(keys))
        if lookups == 2:
            found = compute(module.second.lookup(found))
        return {"counts": tf.math.bincount(tf.cast(found, tf.int32), minlength=5, maxlength=5, axis=-1)}

    tf.saved_model.save(module, str(tmp_path), signatures=count)
    loaded = tf.saved_model.load(str(tmp_path))
    agree(loaded.signatures["serving_default"], ASKED[tf.int64])
    agree(loaded.signatures["serving_default"], ASKED[tf.int64][:0])


def test_verify_uses_keys_that_exist():
    look_up = looking_up(static_table(tf.int64, tf.float32), tf.int64)
    model = convert(look_up)
    (values,) = (found for found in model.graph.node[0].attribute if found.name == "values_floats")
    values.floats[:] = [0.0, 0.0, 0.0]
    (record,) = verify(look_up, model)
    assert not record.ok


def test_a_dense_table_is_refused():
    table = tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, -1, "", "$")
    with pytest.raises(ConversionError, match="a DenseHashTable is not supported"):
        convert(looking_up(table, tf.string))


def test_a_lookup_in_a_loop_is_refused():
    table = static_table(tf.int64, tf.float32)
    sums = tf.function(
        lambda keys: tf.map_fn(lambda row: tf.reduce_sum(table.lookup(row)), keys, fn_output_signature=tf.float32),
        input_signature=[tf.TensorSpec([None, 2], tf.int64)],
    )
    with pytest.raises(ConversionError, match="the table is passed into a loop or branch"):
        convert(sums)


def test_a_table_without_its_contents_is_refused(tmp_path):
    with tf.Graph().as_default() as graph:
        keys = tf.compat.v1.placeholder(tf.string, [None], "keys")
        initializer = tf.lookup.KeyValueTensorInitializer(["red"], tf.constant([4], tf.int64))
        tf.identity(tf.lookup.StaticHashTable(initializer, default_value=-1).lookup(keys), "values")
    path = tmp_path / "frozen.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(ConversionError) as caught:
        convert(path, inputs=["keys"], outputs=["values"])
    assert "the contents of the table are not in the graph; convert the SavedModel" in str(caught.value)
