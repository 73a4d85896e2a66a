"""Models of Keras itself: preprocessing layers, recommenders after its examples, sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from zoo.inputs import Dense, Input, Ragged, Sparse, floats, ids, words
from zoo.registry import Built, model, with_dict, with_list

CITIES = ("rome", "paris", "berlin", "nowhere", "")
TEXTS = ("the cat sat", "a dog", "The dog sat on the cat!", "", "unseen words here")


def _k() -> Any:
    import keras

    return keras


def layer(name: str, *inputs: Input, quick: bool = False, **least: int) -> Callable[[Callable[[], Any]], Any]:
    """Register a layer, or a function of Keras's, which is called with the list of these inputs."""

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        model(f"keras/{name}", quick=quick)(lambda: with_list(build(), inputs, **least))
        return build

    return register


CITY = Dense("city", words(*CITIES), ("rows", 1))
CITY_LISTS = Dense("cities", words(*CITIES), ("rows", "steps"))
TEXT = Dense("text", words(*TEXTS), ("rows", 1))
AGE = Dense("age", floats(scale=20), ("rows", 1))
ID = Dense("id", ids(12, low=-1), ("rows", 1))
ID_LISTS = Dense("ids", ids(9), ("rows", "steps"))


@layer("StringLookup", CITY, quick=True)
def string_lookup() -> Any:
    return _k().layers.StringLookup(vocabulary=list(CITIES[:3]))


@layer("StringLookup, mask token", CITY_LISTS, quick=True)
def string_lookup_mask() -> Any:
    return _k().layers.StringLookup(vocabulary=list(CITIES[:3]), mask_token="", num_oov_indices=2)


@layer("StringLookup, multi-hot", CITY_LISTS)
def string_lookup_multi_hot() -> Any:
    return _k().layers.StringLookup(vocabulary=list(CITIES[:3]), output_mode="multi_hot")


@layer("StringLookup, counts", CITY_LISTS)
def string_lookup_count() -> Any:
    return _k().layers.StringLookup(vocabulary=list(CITIES[:3]), output_mode="count")


@layer("StringLookup, tf-idf", CITY_LISTS)
def string_lookup_tf_idf() -> Any:
    return _k().layers.StringLookup(vocabulary=list(CITIES[:3]), idf_weights=[0.5, 1.0, 2.0], output_mode="tf_idf")


@layer("StringLookup, inverse", Dense("id", ids(4), ("rows", 1)))
def string_lookup_inverse() -> Any:
    return _k().layers.StringLookup(vocabulary=list(CITIES[:3]), invert=True)


@layer("IntegerLookup", ID)
def integer_lookup() -> Any:
    return _k().layers.IntegerLookup(vocabulary=[1, 3, 5, 11])


@layer("IntegerLookup, mask token", ID_LISTS, quick=True)
def integer_lookup_mask() -> Any:
    return _k().layers.IntegerLookup(vocabulary=[1, 3, 5], mask_token=0)


@layer("IntegerLookup, one-hot", Dense("id", ids(12, low=-1)))
def integer_lookup_one_hot() -> Any:
    return _k().layers.IntegerLookup(vocabulary=[1, 3, 5, 11], output_mode="one_hot")


@layer("Hashing", CITY, quick=True)
def hashing() -> Any:
    return _k().layers.Hashing(num_bins=16)


@layer("Hashing, mask value", CITY_LISTS)
def hashing_mask() -> Any:
    return _k().layers.Hashing(num_bins=16, mask_value="")


@layer("Hashing, salted", CITY_LISTS)
def hashing_salted() -> Any:
    return _k().layers.Hashing(num_bins=16, salt=[133, 137])


@layer("Hashing of integers", ID)
def hashing_integers() -> Any:
    return _k().layers.Hashing(num_bins=16)


def _crossing(**arguments: Any) -> Built:
    made = _k().layers.HashedCrossing(**arguments)
    return Built(lambda city, id: made((city, id)), [CITY, ID], made)


@model("keras/HashedCrossing")
def hashed_crossing() -> Built:
    return _crossing(num_bins=32)


@model("keras/HashedCrossing, one-hot")
def hashed_crossing_one_hot() -> Built:
    return _crossing(num_bins=8, output_mode="one_hot")


@layer("Discretization", AGE, quick=True)
def discretization() -> Any:
    return _k().layers.Discretization(bin_boundaries=[-10.0, 0.0, 10.0])


@layer("Discretization, one-hot", AGE)
def discretization_one_hot() -> Any:
    return _k().layers.Discretization(bin_boundaries=[-10.0, 0.0, 10.0], output_mode="one_hot")


@layer("Normalization", Dense("x", floats(scale=3), ("rows", 4)))
def normalization() -> Any:
    made = _k().layers.Normalization()
    made.adapt(np.arange(40, dtype=np.float32).reshape(10, 4))
    return made


@layer("CategoryEncoding, one-hot", Dense("id", ids(6)))
def category_one_hot() -> Any:
    return _k().layers.CategoryEncoding(num_tokens=6, output_mode="one_hot")


@layer("CategoryEncoding, multi-hot", Dense("ids", ids(6), ("rows", "steps")), quick=True)
def category_multi_hot() -> Any:
    return _k().layers.CategoryEncoding(num_tokens=6, output_mode="multi_hot")


@model("keras/CategoryEncoding, weighted counts")
def category_counts() -> Built:
    made = _k().layers.CategoryEncoding(num_tokens=6, output_mode="count")
    inputs = [Dense("ids", ids(6), ("rows", 3)), Dense("weights", floats(), ("rows", 3))]
    return Built(lambda ids, weights: made(ids, count_weights=weights), inputs, made)


@layer("TextVectorization", TEXT)
def text_vectorization() -> Any:
    return _k().layers.TextVectorization(vocabulary=["the", "cat", "dog", "sat"], output_sequence_length=6)


@layer("TextVectorization, multi-hot", TEXT)
def text_multi_hot() -> Any:
    return _k().layers.TextVectorization(vocabulary=["the", "cat", "dog", "sat"], output_mode="multi_hot")


@layer("TextVectorization, bigrams", TEXT)
def text_bigrams() -> Any:
    return _k().layers.TextVectorization(vocabulary=["the cat", "cat", "dog"], ngrams=2)


@layer("Embedding and pooling", ID_LISTS)
def embedding_pooling() -> Any:
    k = _k()
    return k.Sequential([k.layers.Embedding(9, 4, mask_zero=True), k.layers.GlobalAveragePooling1D()])


@layer("LSTM with a mask", ID_LISTS, rows=1, steps=1)
def lstm() -> Any:
    k = _k()
    return k.Sequential([k.layers.Embedding(9, 4, mask_zero=True), k.layers.LSTM(3)])


@layer("GRU", Dense("x", floats(), ("rows", 5, 3)), quick=True)
def gru() -> Any:
    return _k().layers.GRU(4)


@layer("Bidirectional LSTM", Dense("x", floats(), ("rows", 5, 3)), quick=True)
def bidirectional() -> Any:
    k = _k()
    return k.layers.Bidirectional(k.layers.LSTM(4, return_sequences=True))


@model("keras/MultiHeadAttention", quick=True)
def attention() -> Built:
    made = _k().layers.MultiHeadAttention(num_heads=2, key_dim=3)
    inputs = [Dense("x", floats(), ("rows", "steps", 6))]
    return Built(lambda x: made(x, x, use_causal_mask=True), inputs, made, {"steps": 1})


@layer("Conv1D text classifier", ID_LISTS, rows=1, steps=4)
def conv_text() -> Any:
    k = _k()
    layers = k.layers
    stack = [layers.Embedding(9, 4), layers.Conv1D(5, 3, activation="relu"), layers.GlobalMaxPooling1D()]
    return k.Sequential([*stack, layers.Dense(1, activation="sigmoid")])


@model("keras/FeatureSpace", quick=True)
def feature_space() -> Built:
    import tensorflow as tf

    k = _k()
    space = k.utils.FeatureSpace(
        features={
            "city": k.utils.FeatureSpace.string_categorical(num_oov_indices=1),
            "id": k.utils.FeatureSpace.integer_hashed(num_bins=8),
            "age": k.utils.FeatureSpace.float_discretized(num_bins=4),
            "height": k.utils.FeatureSpace.float_normalized(),
        },
        crosses=[k.utils.FeatureSpace.cross(("city", "id"), crossing_dim=8)],
        output_mode="concat",
    )
    data = {"city": ["rome", "paris"] * 4, "id": [1, 2] * 4, "age": [10.0, 50.0] * 4, "height": [1.5, 1.9] * 4}
    space.adapt(tf.data.Dataset.from_tensor_slices(data))
    inputs = [
        Dense("city", words(*CITIES), ("rows", 1)),
        Dense("id", ids(9), ("rows", 1)),
        Dense("age", floats(scale=30), ("rows", 1)),
        Dense("height", floats(), ("rows", 1)),
    ]
    return with_dict(k.Model(space.get_inputs(), space.get_encoded_features()), inputs)


@model("keras/Wide & Deep", quick=True)
def wide_and_deep() -> Built:
    k = _k()
    layers = k.layers
    city, age = k.Input((1,), dtype="string", name="city"), k.Input((1,), name="age")
    user = k.Input((1,), dtype="int64", name="user")
    looked = layers.StringLookup(vocabulary=list(CITIES[:3]))(city)
    wide = layers.CategoryEncoding(num_tokens=4, output_mode="multi_hot")(looked)
    deep = layers.Flatten()(layers.Embedding(10, 4)(user))
    deep = layers.Dense(8, activation="relu")(layers.concatenate([deep, age]))
    made = k.Model([city, age, user], layers.Dense(1, activation="sigmoid")(layers.concatenate([wide, deep])))
    return with_dict(made, [CITY, AGE, Dense("user", ids(10), ("rows", 1))])


@model("keras/Collaborative filtering")
def collaborative() -> Built:
    k = _k()
    layers = k.layers
    user, item = (k.Input((), dtype="int64", name=name) for name in ("user", "item"))
    parts = [layers.Embedding(20, 5)(user), layers.Embedding(30, 5)(item)]
    score = layers.Dot(1)(parts) + layers.Embedding(20, 1)(user) + layers.Embedding(30, 1)(item)
    return with_dict(k.Model([user, item], k.ops.sigmoid(score)), [Dense("user", ids(20)), Dense("item", ids(30))])


@model("keras/Behavior sequence transformer")
def behavior_sequence() -> Built:
    k = _k()
    layers = k.layers
    history, target = k.Input((5,), dtype="int64", name="history"), k.Input((1,), dtype="int64", name="target")
    embedding = layers.Embedding(30, 8)
    steps = layers.concatenate([embedding(history), embedding(target)], axis=1)
    attended = layers.MultiHeadAttention(2, 4)(steps, steps)
    steps = layers.LayerNormalization()(steps + attended)
    steps = layers.LayerNormalization()(steps + layers.Dense(8)(layers.LeakyReLU()(steps)))
    made = k.Model([history, target], layers.Dense(1)(layers.Dense(16, activation="relu")(layers.Flatten()(steps))))
    return with_dict(made, [Dense("history", ids(30), ("rows", 5)), Dense("target", ids(30), ("rows", 1))])


@model("keras/Dense on a sparse input", quick=True)
def dense_on_sparse() -> Built:
    k = _k()
    given = k.Input((8,), sparse=True, name="x")
    return with_list(k.Model(given, k.layers.Dense(3, activation="relu")(given)), [Sparse("x", floats(), 8)])


@model("keras/Embedding of ragged ids")
def embedding_of_ragged() -> Built:
    import tensorflow as tf

    embedding = _k().layers.Embedding(9, 4)

    def call(items: Any) -> Any:
        return tf.reduce_mean(tf.ragged.map_flat_values(embedding, items), 1)

    return Built(call, [Ragged("items", ids(9))], embedding)


@model("keras/Image preprocessing")
def image_preprocessing() -> Built:
    k = _k()
    layers = k.layers
    stack = [layers.Rescaling(1 / 255), layers.CenterCrop(6, 6), layers.ZeroPadding2D(1)]
    stack += [layers.Conv2D(3, 3, activation="relu"), layers.MaxPooling2D(), layers.GlobalAveragePooling2D()]
    image = Dense("image", floats(scale=100), ("rows", 10, 10, 3))
    return with_list(k.Sequential([k.Input((10, 10, 3)), *stack]), [image], rows=1)


@model("keras/Autoencoder")
def autoencoder() -> Built:
    k = _k()
    widths = [8, 3, 8]
    stack = [k.layers.Dense(width, activation="elu") for width in widths]
    stack.insert(2, k.layers.BatchNormalization())
    return with_list(k.Sequential([k.Input((6,)), *stack, k.layers.Dense(6)]), [Dense("x", floats(), ("rows", 6))])
