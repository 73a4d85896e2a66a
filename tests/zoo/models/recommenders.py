"""Layers of tensorflow-recommenders."""

from __future__ import annotations

from typing import Any

from zoo.inputs import Dense, floats, ids
from zoo.registry import Built, model, with_list


def _tfrs() -> Any:
    import tensorflow_recommenders

    return tensorflow_recommenders


@model("tensorflow-recommenders/Cross", "keras2")
def cross() -> Built:
    made = _tfrs().layers.dcn.Cross(projection_dim=3)
    return Built(lambda x0, x: made(x0, x), [Dense(name, floats(), ("rows", 6)) for name in ("x0", "x")], made)


@model("tensorflow-recommenders/MultiLayerDCN", "keras2")
def multi_layer() -> Built:
    made = _tfrs().layers.feature_interaction.MultiLayerDCN(projection_dim=3, num_layers=2)
    return with_list(made, [Dense("x", floats(), ("rows", 6))])


@model("tensorflow-recommenders/DotInteraction", "keras2")
def dot() -> Built:
    made = _tfrs().layers.feature_interaction.DotInteraction(self_interaction=True)
    return with_list(made, [Dense(name, floats(), ("rows", 5)) for name in "abc"])


@model("tensorflow-recommenders/MLP", "keras2")
def mlp() -> Built:
    made = _tfrs().layers.blocks.MLP([8, 4], use_bias=True, final_activation="sigmoid")
    return with_list(made, [Dense("x", floats(), ("rows", 6))])


@model("tensorflow-recommenders/BruteForce", "keras2")
def brute_force() -> Built:
    import tensorflow as tf

    made = _tfrs().layers.factorized_top_k.BruteForce(k=5)
    made.index(tf.random.stateless_normal([30, 4], [1, 2]), tf.range(30) * 7)
    return with_list(made, [Dense("query", floats(), ("rows", 4))])


@model("tensorflow-recommenders/Two towers", "keras2")
def towers() -> Built:
    import tensorflow as tf
    import tf_keras

    owner = tf.Module()
    owner.user = tf_keras.Sequential([tf_keras.layers.Embedding(20, 8), tf_keras.layers.Dense(4)])
    owner.top = _tfrs().layers.factorized_top_k.BruteForce(owner.user, k=3)
    owner.top.index(tf.random.stateless_normal([30, 4], [1, 3]))
    return Built(lambda user: owner.top(user), [Dense("user", ids(20))], owner)


@model("tensorflow-recommenders/Ranking", "keras2")
def ranking() -> Built:
    import tf_keras

    tfrs = _tfrs()
    made = tfrs.layers.feature_interaction.DotInteraction()
    bottom, top = tfrs.layers.blocks.MLP([8, 4]), tfrs.layers.blocks.MLP([8, 1], final_activation="sigmoid")
    tables = [tf_keras.layers.Embedding(20, 4) for _ in range(2)]
    owner = tf_keras.layers.Layer()
    owner.parts = [made, bottom, top, *tables]

    def call(numbers: Any, a: Any, b: Any) -> Any:
        import tensorflow as tf

        dense = bottom(numbers)
        return top(tf.concat([dense, made([dense, tables[0](a), tables[1](b)])], 1))

    return Built(call, [Dense("numbers", floats(), ("rows", 6)), Dense("a", ids(20)), Dense("b", ids(20))], owner)
