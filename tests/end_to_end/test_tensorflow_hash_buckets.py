"""Models that hash strings to rows of a table give TensorFlow's results on both kinds of kernels, to the bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

import onnx_sparse  # noqa: E402
from onnx_sparse.cli import main  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402
from onnx_sparse.schemas import DOMAIN  # noqa: E402
from onnx_sparse.sessions.runtime import available_backends  # noqa: E402

pytestmark = pytest.mark.slow

BUCKETS, WIDTH = 16, 3
BACKENDS = available_backends()
TABLE = np.random.default_rng(0).standard_normal((BUCKETS, WIDTH)).astype(np.float32)
WORDS = np.array(["", "red", "green", "日本語", "user_4711", "a category of many words", "x" * 100], object)


class Lookup(tf.Module):
    """Hashes words to rows of a table, one word per row or the words of a sparse tensor."""

    def __init__(self):
        super().__init__()
        self.table = tf.Variable(TABLE)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
    def dense(self, words):
        return {"rows": tf.nn.embedding_lookup(self.table, tf.strings.to_hash_bucket_fast(words, BUCKETS))}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.int64, "indices"),
            tf.TensorSpec([None], tf.string, "words"),
            tf.TensorSpec([2], tf.int64, "dense_shape"),
        ]
    )
    def sparse(self, indices, words, dense_shape):
        ids = tf.SparseTensor(indices, tf.strings.to_hash_bucket_fast(words, BUCKETS), dense_shape)
        return {"rows": tf.nn.safe_embedding_lookup_sparse(self.table, ids, combiner="mean")}


@pytest.fixture(scope="module")
def lookup():
    return Lookup()


@pytest.fixture(scope="module")
def saved(lookup, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "lookup"
    tf.saved_model.save(lookup, str(path), signatures={"dense": lookup.dense, "sparse": lookup.sparse})
    return path


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_word_per_row(lookup, backend):
    session = onnx_sparse.InferenceSession(convert(lookup.dense), backend=backend)
    for words in (WORDS, WORDS[:0]):
        (rows,) = session.run(None, {"words": words})
        np.testing.assert_array_equal(rows, lookup.dense(tf.constant(words, tf.string))["rows"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_words_of_a_sparse_tensor(lookup, backend):
    model = convert(lookup.sparse)
    ours = [node.op_type for node in model.graph.node if node.domain == DOMAIN]
    assert sorted(ours) == ["EmbeddingSegmentsMean", "StringToHashBucketFast"]
    session = onnx_sparse.InferenceSession(model, backend=backend)
    indices = np.array([[0, 0], [0, 1], [2, 0], [2, 1], [2, 4], [5, 0], [5, 1]])
    for count in (7, 3, 0):
        feeds = {"indices": indices[:count], "words": WORDS[:count], "dense_shape": np.array([7, 5])}
        (rows,) = session.run(None, feeds)
        wanted = lookup.sparse(*(tf.constant(v, tf.string if v.dtype == object else tf.int64) for v in feeds.values()))
        np.testing.assert_array_equal(rows, wanted["rows"])


@pytest.mark.parametrize("signature", ["dense", "sparse"])
def test_verify_generates_words(saved, signature, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    code = main(["convert", str(saved), "--signature", signature, "-o", str(out), "--verify", "--json"])
    assert code == 0
    (record,) = json.loads(capsys.readouterr().out)["verification"]
    assert (record["ok"], record["max_abs"]) == (True, 0)
    assert out.exists()


def test_there_is_no_portable_form(saved, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main(["convert", str(saved), "--signature", "dense", "-o", str(out), "--portable"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "StringToHashBucketFast" in line
    assert "the operator has no function body: standard ONNX cannot express it" in line
    assert not out.exists()


@pytest.mark.parametrize("mask", [None, "", "red"])
def test_keras_hashing(mask):
    words = keras.Input((2,), dtype="string", name="words")
    buckets = keras.layers.Hashing(BUCKETS, mask_value=mask)(words)
    model = keras.Model(words, keras.layers.Embedding(BUCKETS, WIDTH)(buckets))
    converted = convert(model)
    assert "StringToHashBucketFast" in {node.op_type for node in converted.graph.node}
    (record,) = verify(model, converted)
    assert record.ok, record.note
