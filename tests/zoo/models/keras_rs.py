"""Layers of keras-rs, and recommenders after its examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.inputs import Dense, Input, Ragged, Sparse, floats, ids
from zoo.registry import Built, model, with_dict, with_list


def layer(name: str, *inputs: Input, **least: int) -> Callable[[Callable[[], Any]], Any]:
    """Register a layer or model that takes the list of these inputs."""

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        model(f"keras-rs/{name}", "keras3")(lambda: with_list(build(), inputs, **least))
        return build

    return register


def _embed_reduce(combiner: str) -> Any:
    import keras_rs

    return keras_rs.layers.EmbedReduce(20, 4, combiner=combiner)


for _combiner in ("sum", "mean", "sqrtn"):
    layer(f"EmbedReduce, {_combiner}", Dense("ids", ids(20), ("rows", "steps")))(
        lambda combiner=_combiner: _embed_reduce(combiner)
    )
    layer(f"EmbedReduce of ragged ids, {_combiner}", Ragged("ids", ids(20)))(
        lambda combiner=_combiner: _embed_reduce(combiner)
    )
    layer(f"EmbedReduce of sparse ids, {_combiner}", Sparse("ids", ids(20), 8))(
        lambda combiner=_combiner: _embed_reduce(combiner)
    )


@model("keras-rs/EmbedReduce, weighted", "keras3")
def weighted() -> Built:
    made = _embed_reduce("mean")
    inputs = [Ragged("ids", ids(20), key="k"), Ragged("weights", floats(), key="k")]
    return Built(lambda ids, weights: made(ids, weights), inputs, made)


@model("keras-rs/FeatureCross", "keras3")
def feature_cross() -> Built:
    import keras_rs

    made = keras_rs.layers.FeatureCross(projection_dim=3)
    inputs = [Dense(name, floats(), ("rows", 6)) for name in ("x0", "x")]
    return Built(lambda x0, x: made(x0, x), inputs, made)


@layer("DotInteraction", *(Dense(name, floats(), ("rows", 5)) for name in "abc"))
def dot_interaction() -> Any:
    import keras_rs

    return keras_rs.layers.DotInteraction(self_interaction=True)


@layer("DotInteraction, zeros kept", *(Dense(name, floats(), ("rows", 5)) for name in "abc"))
def dot_interaction_wide() -> Any:
    import keras_rs

    return keras_rs.layers.DotInteraction(skip_gather=True)


@layer("BruteForceRetrieval", Dense("query", floats(), ("rows", 4)))
def retrieval() -> Any:
    import keras
    import keras_rs

    candidates = keras.random.normal((30, 4), seed=3)
    return keras_rs.layers.BruteForceRetrieval(candidate_embeddings=candidates, k=5, return_scores=True)


@model("keras-rs/DistributedEmbedding", "keras3")
def distributed() -> Built:
    import keras_rs

    tables = [keras_rs.layers.TableConfig(f"t{k}", 20, 4, combiner=c) for k, c in enumerate(("mean", "sum"))]
    configs = {
        name: keras_rs.layers.FeatureConfig(name, table, (5, 3), (5, 4))
        for name, table in zip("ab", tables, strict=True)
    }
    made = keras_rs.layers.DistributedEmbedding(configs)
    inputs = [Dense(name, ids(20), ("rows", 3)) for name in "ab"]
    return with_dict(made, inputs)


@model("keras-rs/DLRM", "keras3")
def dlrm() -> Built:
    import keras
    import keras_rs

    layers = keras.layers
    dense = keras.Input((6,), name="numbers")
    sparse = [keras.Input((), dtype="int64", name=f"c{k}") for k in range(3)]
    bottom = layers.Dense(4, activation="relu")(layers.Dense(8, activation="relu")(dense))
    embedded = [layers.Embedding(20, 4)(given) for given in sparse]
    crossed = keras_rs.layers.DotInteraction()([bottom, *embedded])
    top = layers.Dense(8, activation="relu")(layers.concatenate([bottom, crossed]))
    made = keras.Model([dense, *sparse], layers.Dense(1, activation="sigmoid")(top))
    return with_dict(made, [Dense("numbers", floats(), ("rows", 6)), *(Dense(f"c{k}", ids(20)) for k in range(3))])


@model("keras-rs/DCNv2", "keras3")
def dcn() -> Built:
    import keras
    import keras_rs

    layers = keras.layers
    given = {name: keras.Input((1,), dtype="int64", name=name) for name in ("user", "item", "city")}
    x0 = layers.concatenate([layers.Flatten()(layers.Embedding(15, 4)(one)) for one in given.values()])
    x = x0
    for _ in range(2):
        x = keras_rs.layers.FeatureCross(projection_dim=2)(x0, x)
    made = keras.Model(given, layers.Dense(1)(layers.Dense(8, activation="relu")(x)))
    return with_dict(made, [Dense(name, ids(15), ("rows", 1)) for name in given])


@model("keras-rs/Two towers", "keras3")
def towers() -> Built:
    import keras

    layers = keras.layers
    user, item = (keras.Input((), dtype="int64", name=name) for name in ("user", "item"))
    sides = []
    for given, size in ((user, 20), (item, 30)):
        side = layers.Dense(4)(layers.Embedding(size, 8)(given))
        sides.append(layers.UnitNormalization()(side))
    scores = keras.ops.matmul(sides[0], keras.ops.transpose(sides[1]))
    return with_dict(keras.Model([user, item], scores), [Dense("user", ids(20)), Dense("item", ids(30))])


def _positions(length: int, width: int, items: Any) -> Any:
    import keras
    import keras_hub

    made = keras_hub.layers.TokenAndPositionEmbedding(30, length, width, mask_zero=True)
    return keras.layers.Dropout(0.1)(made(items))


@model("keras-rs/SASRec", "keras3")
def sasrec() -> Built:
    import keras
    import keras_hub

    items = keras.Input((6,), dtype="int64", name="items")
    steps = _positions(6, 8, items)
    for _ in range(2):
        steps = keras_hub.layers.TransformerDecoder(16, 2, normalize_first=True)(steps)
    made = keras.Model([items], keras.layers.Dense(30)(steps[:, -1]))
    return with_dict(made, [Dense("items", ids(30), ("rows", 6))])


@model("keras-rs/BERT4Rec", "keras3")
def bert4rec() -> Built:
    import keras
    import keras_hub

    items = keras.Input((6,), dtype="int64", name="items")
    steps = keras_hub.layers.TransformerEncoder(16, 2)(_positions(6, 8, items))
    made = keras.Model([items], keras.layers.Dense(30)(steps))
    return with_dict(made, [Dense("items", ids(30), ("rows", 6))])


@model("keras-rs/GRU4Rec", "keras3")
def gru4rec() -> Built:
    import keras

    items = keras.Input((6,), dtype="int64", name="items")
    steps = keras.layers.GRU(8)(keras.layers.Embedding(30, 8, mask_zero=True)(items))
    return with_dict(keras.Model([items], keras.layers.Dense(30)(steps)), [Dense("items", ids(30), ("rows", 6))])


@model("keras-rs/MMoE", "keras3")
def mmoe() -> Built:
    import keras

    layers = keras.layers
    x = keras.Input((10,), name="x")
    experts = keras.ops.stack([layers.Dense(6, activation="relu")(x) for _ in range(3)], axis=1)
    heads = []
    for _ in range(2):
        gate = layers.Dense(3, activation="softmax")(x)
        heads.append(layers.Dense(1)(keras.ops.einsum("be,beh->bh", gate, experts)))
    return with_list(keras.Model(x, heads), [Dense("x", floats(), ("rows", 10))])


@model("keras-rs/YouTubeDNN", "keras3")
def youtube() -> Built:
    import keras
    import keras_rs

    watched = keras.Input((8,), dtype="int64", name="watched")
    age = keras.Input((1,), name="age")
    pooled = keras_rs.layers.EmbedReduce(40, 6, combiner="mean")(watched)
    deep = keras.layers.concatenate([pooled, age, age**2, keras.ops.sqrt(keras.ops.abs(age))])
    made = keras.Model([watched, age], keras.ops.top_k(keras.layers.Dense(40)(deep), 5))
    return with_dict(made, [Dense("watched", ids(40), ("rows", 8)), Dense("age", floats(), ("rows", 1))])
