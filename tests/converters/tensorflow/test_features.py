"""A converted model records its features, takes rows of them, and keeps the record in all its forms."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402

TABLE = np.random.default_rng(0).random((50, 4), np.float32)
ROWS = {
    "items": [[5, 7], [], [3, 3, 49]],
    "words": [["a"], ["b", "ß"], []],
    "path": [[[1, 2], []], [], [[3]]],
    "dense": [[1, 2], [3, 4], [5, 6]],
}


class Model(tf.Module):
    @tf.function(
        input_signature=[
            tf.SparseTensorSpec([None, 7], tf.int64),
            tf.RaggedTensorSpec([None, None], tf.string),
            tf.RaggedTensorSpec([None, None, None], tf.float32),
            tf.TensorSpec([None, 2], tf.float32, "dense"),
        ],
    )
    def serve(self, items, words, path, dense):
        return {
            "mean_out": tf.nn.safe_embedding_lookup_sparse(TABLE, items, combiner="mean"),
            "wide_out": tf.sparse.to_dense(items),
            "words_out": words.to_tensor(),
            "path_out": path.to_tensor(),
            "dense_out": dense,
        }


@pytest.fixture(params=["function", "SavedModel"])
def source(request, tmp_path):
    model = Model()
    if request.param == "function":
        return model.serve
    tf.saved_model.save(model, str(tmp_path / "saved"), signatures=model.serve)
    return tmp_path / "saved"


def test_rows_of_features(source):
    converted = convert(source)
    known = onnx_sparse.features(converted)
    assert {name: feature.kind for name, feature in known.items()} == {
        "items": "sparse",
        "words": "ragged",
        "path": "ragged",
        "dense": "dense",
    }
    assert known["items"].vocabulary_size == len(TABLE)
    expected = Model().serve(
        tf.SparseTensor(*_entries(ROWS["items"]), [3, 7]),
        tf.ragged.constant(ROWS["words"]),
        tf.ragged.constant(ROWS["path"], tf.float32, ragged_rank=2),
        tf.constant(ROWS["dense"], tf.float32),
    )
    session = InferenceSession(converted)
    names = [output.name for output in session.get_outputs()]
    results = dict(zip(names, session.run(None, known.feeds(ROWS)), strict=True))
    for name, want in expected.items():
        got, want = results[name], want.numpy()
        if want.dtype == object:
            assert got.tolist() == [[text.decode() for text in row] for row in want.tolist()]
        else:
            np.testing.assert_allclose(got, want, rtol=1e-6)


def _entries(rows):
    at = [[r, c] for r, row in enumerate(rows) for c in range(len(row))]
    return at, np.array([value for row in rows for value in row])


def signature(*types):
    names = ("at", "ids", "size", "w")
    return [tf.TensorSpec(shape, dtype, name) for name, (shape, dtype) in zip(names, types, strict=False)]


TRIPLE = (([None, 2], tf.int64), ([None], tf.int64), ([2], tf.int64))


@pytest.mark.parametrize("is_safe", [True, False])
def test_a_sparse_tensor_in_parts(is_safe):
    """The operators tell what the inputs are parts of."""
    look_up = tf.nn.safe_embedding_lookup_sparse if is_safe else tf.nn.embedding_lookup_sparse

    @tf.function(input_signature=signature(*TRIPLE))
    def function(at, ids, size):
        items = tf.SparseTensor(at, ids, size)
        return look_up(TABLE, items, None, combiner="sum") if not is_safe else look_up(TABLE, items, combiner="sum")

    known = onnx_sparse.features(convert(function))
    if is_safe:  # the other ends with the last row that has ids
        assert known["ids"].inputs == {"indices": "at", "values": "ids", "dense_shape": "size"}
    assert known["ids"].vocabulary_size == len(TABLE)


def test_weights_are_no_feature_of_their_own():
    @tf.function(input_signature=signature(*TRIPLE, ([None], tf.float32)))
    def function(at, ids, size, w):
        items, weights = (tf.SparseTensor(at, values, size) for values in (ids, w))
        return tf.nn.safe_embedding_lookup_sparse(TABLE, items, weights, combiner="sum")

    assert {feature.kind for feature in onnx_sparse.features(convert(function)).values()} == {"dense"}


def test_the_record_stays(tmp_path):
    converted = convert(Model().serve)
    known = onnx_sparse.features(converted)
    for change in (onnx_sparse.canonicalize, onnx_sparse.embed_functions, onnx_sparse.fuse, onnx_sparse.lower):
        assert dict(onnx_sparse.features(change(converted))) == dict(known)
    assert dict(onnx_sparse.features(InferenceSession(converted))) == dict(known)
