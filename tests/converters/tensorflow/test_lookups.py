"""Lookup tables: every type of key and value, missing keys, tables of Keras layers, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.cli import main  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, load, verify  # noqa: E402

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


def dense_table(key, value, default, buckets):
    nothing, removed = ("nothing", "removed") if key == tf.string else (-1, -2)
    table = tf.lookup.experimental.DenseHashTable(key, value, default, nothing, removed, initial_num_buckets=buckets)
    names = tf.constant(KEYS[key], key)
    table.insert(names, np.arange(3 * np.size(default), dtype=value.as_numpy_dtype).reshape(3, *np.shape(default)))
    return table


@pytest.mark.parametrize("default", [-1, [-1.0, 0.5]], ids=str)
@pytest.mark.parametrize("key", [tf.string, tf.int64], ids=lambda t: t.name)
def test_dense_tables(tmp_path, key, default):
    """They are saved with all their buckets, of which some are empty, or were emptied again."""

    class Holder(tf.Module):
        def __init__(self):
            super().__init__()
            self.table = dense_table(key, tf.float32, default, 8)

        @tf.function(input_signature=[tf.TensorSpec([None], key, "keys")])
        def look_up(self, keys):
            return {"values": self.table.lookup(keys), "size": self.table.size()}

    holder = Holder()
    with pytest.raises(ConversionError, match="or convert the SavedModel that it comes from"):
        convert(holder.look_up)
    holder.table.remove(tf.constant(KEYS[key][:1], key))
    tf.saved_model.save(holder, tmp_path, holder.look_up)
    found = InferenceSession(convert(tmp_path)).run(["values", "size"], {"keys": np.ravel(ASKED[key])})
    expected = holder.look_up(tf.constant(np.ravel(ASKED[key]), key))
    np.testing.assert_array_equal(found[0], expected["values"])
    assert found[1] == expected["size"] == 2


def test_exported_tables(agree):
    table = static_table(tf.string, tf.int64)
    mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    mutable.insert(*table.export())

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "x")])
    def exported(x):
        made = {}
        for name, each in (("static", table), ("mutable", mutable)):
            keys, values = each.export()
            order = tf.argsort(values)
            made |= {
                f"{name} keys": tf.gather(keys, order),
                f"{name} values": tf.gather(values, order) + tf.reduce_sum(x),
            }
        return made

    agree(exported, np.array([1, 2]))


def test_a_lookup_in_a_loop(agree):
    table = static_table(tf.int64, tf.float32)
    sums = tf.function(
        lambda keys: tf.map_fn(lambda row: tf.reduce_sum(table.lookup(row)), keys, fn_output_signature=tf.float32),
        input_signature=[tf.TensorSpec([None, 2], tf.int64)],
    )
    for keys in ([[1, 2], [7, 1], [0, 0]], []):
        agree(sums, np.reshape(np.array(keys, np.int64), (-1, 2)))


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """A GraphDef with lookups in three tables, without what is in them."""
    with tf.Graph().as_default() as graph:
        words = tf.compat.v1.placeholder(tf.string, [None], "words")
        ids = tf.compat.v1.placeholder(tf.int64, [None], "ids")
        vocabulary = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64, name="vocabulary")
        weights = tf.raw_ops.HashTableV2(
            key_dtype=tf.int64, value_dtype=tf.float32, name="weights", shared_name="by_id"
        )
        names = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.string, name="names")
        asked = ((vocabulary, words, np.int64(-1)), (weights, ids, np.float32(0.5)), (names, ids, "?"))
        for number, (table, keys, default) in enumerate(asked):
            found = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=keys, default_value=default)
            tf.identity(found, f"found_{number}")
    path = tmp_path_factory.mktemp("frozen") / "frozen.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


CONTENTS = {"vocabulary": (["red", "grün"], [3, 4]), "by_id": ([1, 2], [0.25, 2]), "names": ([1, 5], ["a", "ü"])}
FOUND = [f"found_{number}" for number in range(3)]


class TestTablesOfFrozenGraphs:
    def test_given_contents(self, frozen, run):
        source = load(frozen, outputs=FOUND, lookup_tables=CONTENTS)
        model = convert(source)
        assert [record.ok for record in verify(source, model)] == [True] * 3
        found = run(model, words=np.array(["grün", "blue"], object), ids=np.array([1, 5, 7]))
        assert [found[name].tolist() for name in FOUND] == [[4, -1], [0.25, 0.5, 0.5], ["a", "ü", "?"]]

    def test_contents_in_the_graph_itself(self, run, tmp_path):
        """What fills a table is still there if the graph was not cut to its outputs."""
        with tf.Graph().as_default() as graph:
            keys = tf.compat.v1.placeholder(tf.string, [None], "keys")
            initializer = tf.lookup.KeyValueTensorInitializer(["red"], tf.constant([4], tf.int64))
            tf.identity(tf.lookup.StaticHashTable(initializer, default_value=-1).lookup(keys), "values")
        path = tmp_path / "frozen.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        source = load(path, inputs=["keys"], outputs=["values"])
        model = convert(source)
        assert verify(source, model)[0].ok
        assert run(model, keys=np.array(["red", "blue"], object))["values"].tolist() == [4, -1]

    def test_tables_whose_contents_are_not_given_are_refused(self, frozen):
        with pytest.raises(ConversionError, match="give its keys and values") as caught:
            convert(frozen, outputs=FOUND, lookup_tables={"vocabulary": CONTENTS["vocabulary"]})
        assert [node.op_type for node in caught.value.unsupported] == ["LookupTableFindV2"] * 2

    @pytest.mark.parametrize(
        ("name", "keys", "held", "message"),
        [
            ("vocab", ["a"], [1], "no lookup table named 'vocab'"),
            ("weights", ["x"], [1], "its keys are int64: invalid literal"),
            ("by_id", [1.5], [1], "its keys are int64: some do not fit"),
            ("weights", [2**70], [1], "its keys are int64"),
            ("vocabulary", ["a"], [1, 2], "1 keys and 2 values"),
            ("vocabulary", [["a"]], [[1]], "the keys must be a vector, not of shape"),
        ],
    )
    def test_contents_that_the_table_cannot_hold(self, frozen, name, keys, held, message):
        with pytest.raises(ConversionError, match=message):
            convert(frozen, outputs=FOUND, lookup_tables={name: (keys, held)})

    def test_other_sources_have_their_tables(self):
        with pytest.raises(ConversionError, match="pass tables for a GraphDef only"):
            convert(looking_up(static_table(tf.string, tf.int64), tf.string), lookup_tables=CONTENTS)

    def test_files(self, frozen, tmp_path, capsys):
        """Text with values, text without, and arrays."""
        (tmp_path / "words.txt").write_text("red\ngrün\n", encoding="utf-8")
        (tmp_path / "weights.tsv").write_text("1\t0.25\n2\t2\n", encoding="utf-8")
        np.savez(tmp_path / "names.npz", keys=[1, 5], values=["a", "ü"])
        files = {"vocabulary": "words.txt", "weights": "weights.tsv", "names": "names.npz"}
        options = [word for name, file in files.items() for word in ("--lookup-table", f"{name}={tmp_path / file}")]
        command = ["convert", str(frozen), "-o", str(tmp_path / "out.onnx"), "--outputs", ",".join(FOUND), "--verify"]
        assert main([*command, *options]) == 0
        (tmp_path / "weights.tsv").write_text("1\t0.25\n2\n", encoding="utf-8")
        assert main([*command, *options]) == 1
        assert "line 2 is not a key, a tab and a value" in capsys.readouterr().err
        assert main([*command, "--lookup-table", "vocabulary"]) == 2
