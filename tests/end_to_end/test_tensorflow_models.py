"""Whole TensorFlow models, from disk to the results of ONNX Runtime."""

import numpy as np
import onnx
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402
from onnx_sparse.schemas import DOMAIN  # noqa: E402

pytestmark = pytest.mark.slow

VOCABULARY = 12
WIDTH = 4

# Batches of the ids of four rows: all have some, some have none, none has any.
BATCHES = ([[3, 1], [11], [0, 3, 3], [7]], [[], [5, 5], [], []], [[], [], [], []])


def triple(rows, dtype):
    """The three tensors of a sparse tensor with the given rows."""
    indices = [[r, c] for r, row in enumerate(rows) for c in range(len(row))]
    longest = max(map(len, rows), default=0) or 1
    flat = [value for row in rows for value in row]
    return np.array(indices, np.int64).reshape(-1, 2), np.array(flat, dtype), np.array([len(rows), longest])


def save_and_convert(function, path, **tracked):
    """Save a function as a SavedModel, with the variables that it uses, and convert that."""
    module = tf.Module()
    module.function = function
    for name, value in tracked.items():
        setattr(module, name, value)
    tf.saved_model.save(module, str(path), signatures=function)
    return convert(path)


def run_file(model, path, feeds):
    """Run a model as a user would: written to a file, loaded, and fed by name."""
    onnx.save(model, path)
    session = onnx_sparse.InferenceSession(str(path))
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


@pytest.fixture(scope="module")
def table():
    values = np.random.default_rng(1).standard_normal((VOCABULARY, WIDTH))
    return tf.Variable(values.astype(np.float32), name="table")


def test_fill_empty_rows_and_segment_sum(tmp_path, table):
    """Filled rows are where TensorFlow puts them, and sums equal TensorFlow's to the bit."""
    specs = [
        tf.TensorSpec([None, 2], tf.int64, "indices"),
        tf.TensorSpec([None], tf.int64, "values"),
        tf.TensorSpec([2], tf.int64, "dense_shape"),
    ]

    @tf.function(input_signature=specs)
    def pooled(indices, values, dense_shape):
        filled, empty = tf.sparse.fill_empty_rows(tf.SparseTensor(indices, values, dense_shape), np.int64(0))
        sums = tf.sparse.segment_sum(table, filled.values, filled.indices[:, 0])
        return {"sums": sums, "empty": empty, "ids": filled.values, "coordinates": filled.indices}

    model = save_and_convert(pooled, tmp_path / "pooled", table=table)
    kinds = [node.op_type for node in model.graph.node if node.domain == DOMAIN]
    assert sorted(kinds) == ["EmbeddingSegmentsSum", "SparseFillEmptyRows"]
    for rows in BATCHES:
        feeds = dict(zip(("indices", "values", "dense_shape"), triple(rows, np.int64), strict=True))
        expected = pooled(**{name: tf.constant(value) for name, value in feeds.items()})
        actual = run_file(model, tmp_path / "pooled.onnx", feeds)
        assert set(actual) == set(expected)
        for name, value in actual.items():
            np.testing.assert_array_equal(value, expected[name].numpy(), name)


def test_a_recommender_with_words_and_features(tmp_path, table):
    """Words to ids, ids to a pooled embedding, features beside it, a dense layer on top; checked by verify."""
    dense = tf.Variable(np.random.default_rng(2).standard_normal((WIDTH + 2, 1)).astype(np.float32))
    words = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["red", "green", "blue"], tf.constant([3, 6, 9], tf.int64)), default_value=0
    )
    specs = [
        tf.TensorSpec([None, 2], tf.int64, "tags_indices"),
        tf.TensorSpec([None], tf.string, "tags_values"),
        tf.TensorSpec([2], tf.int64, "tags_dense_shape"),
        tf.TensorSpec([None, 2], tf.float32, "features"),
    ]

    @tf.function(input_signature=specs)
    def score(tags_indices, tags_values, tags_dense_shape, features):
        ids = tf.SparseTensor(tags_indices, words.lookup(tags_values), tags_dense_shape)
        pooled = tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="sqrtn")
        hidden = tf.concat([tf.reshape(pooled, [-1, WIDTH]), features], axis=1)
        return {"score": tf.sigmoid(hidden @ dense)}

    module = tf.Module()
    module.words, module.score, module.variables_in_use = words, score, [table, dense]
    path = tmp_path / "recommender"
    tf.saved_model.save(module, str(path), signatures={"rank": score})
    model = convert(path, signature="rank")
    (record,) = verify(path, model, signature="rank", batch_count=6)
    assert (record.output, record.ok, record.note) == ("score", True, "")
