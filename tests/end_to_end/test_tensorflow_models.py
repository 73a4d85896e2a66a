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

# Batches of four rows, given as the ids and weights of each row.
BATCHES = {
    "normal": ([[3, 1], [11], [0, 3, 3], [7]], [[0.5, 2.0], [1.0], [1.0, 0.25, 4.0], [0.1]]),
    "with empty rows": ([[], [5, 5], [], []], [[], [1.5, 0.5], [], []]),
    "with pruned ids": ([[-1, 2], [-3], [4], [-1]], [[1.0, 1.0], [1.0], [2.0], [1.0]]),
    "without any ids": ([[], [], [], []], [[], [], [], []]),
}


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
    for rows, _ in BATCHES.values():
        ids = [[abs(value) for value in row] for row in rows]
        feeds = dict(zip(("indices", "values", "dense_shape"), triple(ids, np.int64), strict=True))
        expected = pooled(**{name: tf.constant(value) for name, value in feeds.items()})
        actual = run_file(model, tmp_path / "pooled.onnx", feeds)
        assert set(actual) == set(expected)
        for name, value in actual.items():
            np.testing.assert_array_equal(value, expected[name].numpy(), name)


SPARSE_IDS = [
    tf.TensorSpec([None, 2], tf.int64, "ids_indices"),
    tf.TensorSpec([None], tf.int64, "ids_values"),
    tf.TensorSpec([2], tf.int64, "ids_dense_shape"),
]


@pytest.mark.parametrize("default_id", [None, 5])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_safe_embedding_lookup_sparse(tmp_path, table, combiner, default_id):
    @tf.function(input_signature=SPARSE_IDS)
    def lookup(ids_indices, ids_values, ids_dense_shape):
        ids = tf.SparseTensor(ids_indices, ids_values, ids_dense_shape)
        looked_up = tf.nn.safe_embedding_lookup_sparse(table, ids, combiner=combiner, default_id=default_id)
        return {"embedding": looked_up}

    model = save_and_convert(lookup, tmp_path / "lookup", table=table)
    for rows, _ in BATCHES.values():
        feeds = dict(zip(("ids_indices", "ids_values", "ids_dense_shape"), triple(rows, np.int64), strict=True))
        expected = lookup(**{name: tf.constant(value) for name, value in feeds.items()})["embedding"].numpy()
        actual = run_file(model, tmp_path / "lookup.onnx", feeds)["embedding"]
        assert actual.shape == (4, WIDTH)
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_weighted_safe_embedding_lookup_sparse(tmp_path, table, combiner):
    @tf.function(input_signature=[*SPARSE_IDS, tf.TensorSpec([None], tf.float32, "weights")])
    def lookup(ids_indices, ids_values, ids_dense_shape, weights):
        ids = tf.SparseTensor(ids_indices, ids_values, ids_dense_shape)
        weighted = tf.SparseTensor(ids_indices, weights, ids_dense_shape)
        return {"embedding": tf.nn.safe_embedding_lookup_sparse(table, ids, weighted, combiner=combiner)}

    model = save_and_convert(lookup, tmp_path / "lookup", table=table)
    for rows, weights in BATCHES.values():
        feeds = dict(zip(("ids_indices", "ids_values", "ids_dense_shape"), triple(rows, np.int64), strict=True))
        feeds["weights"] = triple(weights, np.float32)[1]
        expected = lookup(**{name: tf.constant(value) for name, value in feeds.items()})["embedding"].numpy()
        actual = run_file(model, tmp_path / "lookup.onnx", feeds)["embedding"]
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_embedding_lookup_sparse_with_an_empty_row_in_the_middle(tmp_path, table, combiner):
    """A row without ids is 0, not NaN."""

    @tf.function(input_signature=SPARSE_IDS)
    def lookup(ids_indices, ids_values, ids_dense_shape):
        ids = tf.SparseTensor(ids_indices, ids_values, ids_dense_shape)
        return {"embedding": tf.nn.embedding_lookup_sparse(table, ids, None, combiner=combiner)}

    model = save_and_convert(lookup, tmp_path / "lookup", table=table)
    feeds = dict(
        zip(("ids_indices", "ids_values", "ids_dense_shape"), triple([[1, 2], [], [3]], np.int64), strict=True)
    )
    expected = lookup(**{name: tf.constant(value) for name, value in feeds.items()})["embedding"].numpy()
    actual = run_file(model, tmp_path / "lookup.onnx", feeds)["embedding"]
    np.testing.assert_array_equal(actual, expected)
    assert not actual[1].any()


def test_ragged_safe_embedding_lookup_sparse(tmp_path, table):
    """Each of these graphs has a RaggedFillEmptyRows, which tf2onnx cannot convert."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "ids"), tf.TensorSpec([None], tf.int64, "splits")])
    def lookup(ids, splits):
        rows = tf.RaggedTensor.from_row_splits(ids, splits, validate=False)
        return {"embedding": tf.nn.safe_embedding_lookup_sparse(table, rows, combiner="mean")}

    model = save_and_convert(lookup, tmp_path / "lookup", table=table)
    for splits in ([0, 2, 2, 3], [0, 1, 2, 3], [0, 0, 0]):
        feeds = {"ids": np.array([4, 1, 9])[: splits[-1]], "splits": np.array(splits)}
        expected = lookup(**{name: tf.constant(value) for name, value in feeds.items()})["embedding"].numpy()
        actual = run_file(model, tmp_path / "lookup.onnx", feeds)["embedding"]
        np.testing.assert_array_equal(actual, expected)


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
