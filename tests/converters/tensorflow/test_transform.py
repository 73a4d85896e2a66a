"""Preprocessing as TensorFlow Transform writes it into a serving signature: messages are parsed, missing values filled,
numbers scaled and put into buckets, words split, made n-grams and looked up in vocabularies, counted and hashed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402
from onnx_sparse.rows.example_arrays import example_array  # noqa: E402

SPEC = {
    "title": tf.io.FixedLenFeature([], tf.string, ""),
    "price": tf.io.VarLenFeature(tf.float32),
    "age": tf.io.FixedLenFeature([1], tf.float32, float("nan")),
    "genre": tf.io.VarLenFeature(tf.string),
    "watched": tf.io.VarLenFeature(tf.int64),
    "country": tf.io.FixedLenFeature([], tf.string, "?"),
}
WORDS = ("the", "night", "of", "a", "day", "in the", "the night", "night of", "of a")
GENRES = ("drama", "comedy", "grün", "film noir")


class Transform(tf.Module):
    """What a `preprocessing_fn` leaves behind once its analyzers have run: a graph with vocabularies and constants."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.vocabularies = {}
        for name, words in {"words": WORDS, "genres": GENRES}.items():
            path = folder / f"{name}.txt"
            path.write_text("\n".join(words) + "\n", "utf-8")
            kinds = tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
            file = tf.lookup.TextFileInitializer(str(path), *kinds)
            self.vocabularies[name] = (
                tf.lookup.StaticVocabularyTable(file, 3) if name == "words" else tf.lookup.StaticHashTable(file, -1)
            )
        self.embedding = tf.Variable(np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def __call__(self, examples: Any) -> dict[str, Any]:
        features = tf.io.parse_example(examples, SPEC)
        return {
            "age": self.scaled(features["age"], 38.5, 190.25),
            "price_bucket": self.bucket(self.filled(features["price"], -1.0)),
            "words": tf.sparse.to_dense(self.ids(features["title"]), -1),
            "tf_idf": self.tf_idf(self.ids(features["title"])),
            "genre": self.multi_hot(features["genre"]),
            "country": tf.strings.to_hash_bucket_strong(tf.strings.lower(features["country"]), 50, [7, 11]),
            "pair": self.crossed(features),
            "watched": tf.nn.safe_embedding_lookup_sparse(self.embedding, features["watched"], combiner="sqrtn"),
        }

    def filled(self, x: Any, default: float) -> Any:
        """`tft.sparse_tensor_to_dense_with_shape`: one value per row, of those that there may be."""
        one = tf.sparse.retain(x, tf.equal(x.indices[:, 1], 0))
        one = tf.SparseTensor(one.indices, one.values, [x.dense_shape[0], 1])
        return tf.squeeze(tf.sparse.to_dense(one, default), 1)

    def scaled(self, x: Any, mean: float, variance: float) -> Any:
        """`tft.scale_to_z_score`, with the mean for what is missing."""
        known = tf.where(tf.math.is_nan(x), tf.fill(tf.shape(x), mean), x)
        return tf.math.divide_no_nan(known - mean, tf.sqrt(tf.constant(variance)))

    def bucket(self, x: Any) -> Any:
        """`tft.apply_buckets`."""
        bounds = tf.constant([[0.0, 1.5, 10.0, 1e4]])
        return tf.cast(tf.searchsorted(bounds[0], tf.reshape(x, [-1]), side="right"), tf.int64)

    def ids(self, titles: Any) -> Any:
        """`tft.ngrams` of split and cleaned text, then `tft.apply_vocabulary`."""
        clean = tf.strings.regex_replace(tf.strings.lower(titles), r"[^a-z ]+", "")
        tokens = tf.strings.split(tf.strings.strip(clean))
        grams = tf.strings.ngrams(tokens, [1, 2]).to_sparse()
        return tf.SparseTensor(grams.indices, self.vocabularies["words"].lookup(grams.values), grams.dense_shape)

    def tf_idf(self, ids: Any) -> Any:
        """`tft.tfidf`: how often each row has an id, by how many rows have it; as dense numbers of each id."""
        size = len(WORDS) + 3
        rows = tf.cast(ids.dense_shape[0], tf.int64)
        cells, _, counts = tf.unique_with_counts(ids.indices[:, 0] * size + ids.values, out_idx=tf.int64)
        row, word = cells // size, cells % size
        lengths = tf.math.unsorted_segment_sum(tf.ones_like(ids.values), ids.indices[:, 0], rows)
        frequency = tf.cast(counts, tf.float64) / tf.cast(tf.gather(lengths, row), tf.float64)
        having = tf.math.bincount(tf.cast(word, tf.int32), minlength=size, dtype=tf.float64)
        rarity = tf.math.log((tf.cast(rows, tf.float64) + 1.0) / (having + 1.0)) + 1.0
        weights = tf.cast(frequency * tf.gather(rarity, word), tf.float32)
        return tf.scatter_nd(tf.stack([row, word], 1), weights, tf.stack([rows, size]))

    def multi_hot(self, genres: Any) -> Any:
        """`tft.compute_and_apply_vocabulary`, one-hot and summed by row; unknown genres are dropped."""
        ids = self.vocabularies["genres"].lookup(genres.values)
        known = ids >= 0
        hot = tf.one_hot(tf.boolean_mask(ids, known), len(GENRES))
        return tf.math.unsorted_segment_sum(hot, tf.boolean_mask(genres.indices[:, 0], known), genres.dense_shape[0])

    def crossed(self, features: Any) -> Any:
        """Two features as one text, hashed."""
        bucket = tf.strings.as_string(self.bucket(self.filled(features["price"], -1.0)))
        return tf.strings.to_hash_bucket_fast(tf.strings.join([features["country"], bucket], "_X_"), 1000)


def drawn(random: np.random.Generator, count: int) -> list[bytes]:
    """Messages in which anything may be missing or empty."""
    texts = ["The Night of a DAY!", "", "  in the  night ", "grün", "a", "the the the", "naïve -- of a", "日本"]

    def some(values: Any, most: int) -> list[Any]:
        return [values[k] for k in random.integers(len(values), size=random.integers(0, most + 1))]

    made = []
    for _ in range(count):
        feature, lists = {}, tf.train
        text = {
            "genre": some([*GENRES, "sci-fi"], 4),
            "title": some(texts, 8)[:1],
            "country": some(["AT", "de", ""], 3)[:1],
        }
        for name, words in text.items():
            if words or (name == "genre" and random.random() < 0.5):
                feature[name] = lists.Feature(bytes_list=lists.BytesList(value=[word.encode() for word in words]))
        if random.random() < 0.7:
            prices = [float(price) for price in some([-2.0, 0.0, 1.5, 3.25, 1e9, float("nan")], 3)]
            feature["price"] = lists.Feature(float_list=lists.FloatList(value=prices))
        if random.random() < 0.7:
            feature["age"] = lists.Feature(float_list=lists.FloatList(value=[float(random.normal(40, 20))]))
        if random.random() < 0.7:
            watched = [int(k) for k in random.integers(0, 100, random.integers(0, 6))]
            feature["watched"] = lists.Feature(int64_list=lists.Int64List(value=watched))
        made.append(lists.Example(features=lists.Features(feature=feature)).SerializeToString())
    return made


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a transform graph, whose vocabularies are its assets."""
    folder = tmp_path_factory.mktemp("transform")
    module = Transform(folder)
    tf.saved_model.save(module, str(folder / "saved"), {"serving_default": module.__call__})
    return folder / "saved"


def test_every_feature_equals_tensorflows_on_random_messages(saved: Path) -> None:
    session = onnx_sparse.InferenceSession(convert(saved), backend="native")
    reference = tf.saved_model.load(str(saved)).signatures["serving_default"]
    names = [output.name for output in session.get_outputs()]
    random = np.random.default_rng(0)
    for count in (0, 1, 2, 3, *random.integers(1, 40, 40)):
        messages = drawn(random, int(count))
        got = dict(zip(names, session.run(None, {"examples": example_array(messages)}), strict=True))
        for name, wanted in reference(tf.constant(messages, tf.string)).items():
            assert got[name].shape == wanted.shape, name
            assert got[name].dtype == wanted.dtype.as_numpy_dtype, name
            np.testing.assert_allclose(got[name], wanted.numpy(), rtol=1e-6, atol=1e-6, err_msg=name)


def test_verification_draws_messages_for_it(saved: Path) -> None:
    assert all(record.ok for record in verify(saved, convert(saved)))
