"""TensorFlow's feature columns, which many models in production still use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.inputs import Dense, Input, Sparse, floats, ids, words
from zoo.registry import Built, model, with_dict

CITY = Sparse("city", words("rome", "paris", "berlin", "nowhere"), key="k")
WEIGHT = Sparse("weight", floats(), key="k")
ITEM = Sparse("item", ids(12))
AGE = Dense("age", floats(scale=20), ("rows", 1))


def columns(name: str, *inputs: Input, linear: bool = False, quick: bool = False) -> Callable[[Any], Any]:
    """Register feature columns; the decorated function makes them of the module of feature columns."""

    def register(make: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
        def build() -> Built:
            import tensorflow as tf

            v1 = tf.compat.v1
            owner = tf.Module()

            def variable(getter: Any, *args: Any, **kwargs: Any) -> Any:
                made = kept.get(kwargs["name"])
                if made is None:
                    with tf.init_scope():
                        start = tf.random.stateless_normal(kwargs["shape"], [1, len(kept)], dtype=tf.float32)
                        made = kept[kwargs["name"]] = tf.Variable(start, name="v")
                        owner.kept = list(kept.values())
                return made

            kept: dict[str, Any] = {}

            def call(**features: Any) -> Any:
                made = make(tf.feature_column)
                with v1.variable_scope("model", custom_getter=variable, reuse=v1.AUTO_REUSE):
                    if linear:
                        return v1.feature_column.linear_model(features, made)
                    return v1.feature_column.input_layer(features, made)

            tf.function(call).get_concrete_function(**{given.name: given.spec() for given in inputs})
            return Built(call, inputs, owner)

        model(f"feature columns/{name}", quick=quick)(build)
        return make

    return register


@columns("numeric and bucketized", AGE)
def numeric(fc: Any) -> list[Any]:
    age = fc.numeric_column("age")
    return [age, fc.bucketized_column(age, [-10, 0, 10])]


@columns("embedding of identities", ITEM, quick=True)
def identity(fc: Any) -> list[Any]:
    return [fc.embedding_column(fc.categorical_column_with_identity("item", 12), 4)]


@columns("indicator of identities", ITEM)
def indicator(fc: Any) -> list[Any]:
    return [fc.indicator_column(fc.categorical_column_with_identity("item", 10, default_value=0))]


@columns("hash bucket", CITY)
def hashed(fc: Any) -> list[Any]:
    city = fc.categorical_column_with_hash_bucket("city", 20)
    return [fc.embedding_column(city, 4), fc.indicator_column(city)]


@columns("weighted", CITY, WEIGHT)
def weighted(fc: Any) -> list[Any]:
    city = fc.categorical_column_with_hash_bucket("city", 20)
    return [fc.embedding_column(fc.weighted_categorical_column(city, "weight"), 4, combiner="sum")]


@columns("crossed", CITY, ITEM)
def crossed(fc: Any) -> list[Any]:
    item = fc.categorical_column_with_identity("item", 12)
    return [fc.indicator_column(fc.crossed_column(["city", item], 30))]


@columns("shared embeddings", ITEM, Sparse("seen", ids(12)))
def shared(fc: Any) -> list[Any]:
    return [fc.embedding_column(fc.categorical_column_with_identity(name, 12), 3) for name in ("item", "seen")]


@columns("linear model", CITY, ITEM, AGE, linear=True)
def linear(fc: Any) -> list[Any]:
    age = fc.bucketized_column(fc.numeric_column("age"), [-10, 0, 10])
    city = fc.categorical_column_with_hash_bucket("city", 20)
    return [age, city, fc.categorical_column_with_identity("item", 12), fc.crossed_column(["city", "item"], 40)]


@model("feature columns/DenseFeatures", "keras2")
def dense_features() -> Built:
    import tensorflow as tf
    import tf_keras

    fc = tf.feature_column
    city = fc.categorical_column_with_vocabulary_list("city", ["rome", "paris", "berlin"], num_oov_buckets=1)
    columns = [fc.embedding_column(city, 4, combiner="sqrtn"), fc.indicator_column(city), fc.numeric_column("age")]
    return with_dict(tf_keras.layers.DenseFeatures(columns), [CITY, AGE])
