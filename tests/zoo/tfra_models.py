"""Models with hash-keyed embeddings, by TensorFlow Recommenders Addons, and what TensorFlow answers.

`python tests/zoo/tfra_models.py FOLDER` writes an archive for each: the SavedModel, and batches with their answers. It
needs an environment of its own: `pip install tensorflow==2.16.* tf_keras tensorflow-recommenders-addons==0.8.1`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ |= {"TF_USE_LEGACY_KERAS": "1", "CUDA_VISIBLE_DEVICES": "-1"}

Arrays = dict[str, np.ndarray]
#: A function that saves a model in a folder, and the inputs of a batch with a seed.
Model = tuple[Callable[[str], None], Callable[[np.random.Generator], Arrays]]

MODELS: dict[str, Model] = {}

_KEYS = 60
_FILES = ("saved_model.pb", "variables")


def _model(name: str, batch: Callable[[np.random.Generator], Arrays]) -> Callable[[Any], Any]:
    def add(save: Callable[[str], None]) -> Callable[[str], None]:
        MODELS[name] = save, batch
        return save

    return add


def known_keys(dtype: Any = np.int64) -> np.ndarray:
    """The keys of every table: the ends of the type, zero, and others."""
    drawn = np.random.default_rng(7)
    if dtype is str:
        texts = [f"item {n}" for n in range(_KEYS - 3)] + ["", "ä", "a\x00b"]
        return np.array([text.encode() for text in texts], object)
    info = np.iinfo(dtype)
    ends = [info.min, info.max, 0, -1, 1]
    return np.concatenate([np.array(ends, dtype), drawn.integers(info.min, info.max, _KEYS - 5, dtype)])


def _ids(drawn: np.random.Generator, shape: tuple[int, ...], dtype: Any = np.int64) -> np.ndarray:
    """Keys of which some are not in the tables."""
    known = known_keys(dtype)
    ids = known[drawn.integers(0, len(known), shape)]
    ids[drawn.random(shape) < 0.3] = b"absent" if dtype is str else 12345
    return ids


def _dense(*shape: int, dtype: Any = np.int64) -> Callable[[np.random.Generator], Arrays]:
    return lambda drawn: {"ids": _ids(drawn, (int(drawn.integers(1, 6)), *shape), dtype)}


def _sparse(weights: bool = False, empty: bool = False) -> Callable[[np.random.Generator], Arrays]:
    """The parts of a sparse tensor of ids, with rows that are empty if `empty`."""

    def batch(drawn: np.random.Generator) -> Arrays:
        lengths = drawn.integers(0 if empty else 1, 5, 4)
        places = np.array([(row, k) for row, n in enumerate(lengths) for k in range(n)], np.int64).reshape(-1, 2)
        made = {"indices": places, "ids": _ids(drawn, (len(places),)), "shape": np.array([4, 5], np.int64)}
        return made | ({"weights": drawn.random(len(places), np.float32) - np.float32(0.1)} if weights else {})

    return batch


def _saver(files: bool) -> Any:
    from tensorflow_recommenders_addons import dynamic_embedding as de

    return de.CuckooHashTableCreator(saver=de.FileSystemSaver() if files else None)


def _variable(
    name: str, shards: int, *, files: bool = False, dtype: Any = np.int64, value: str = "float32", **more: Any
):
    """A variable with known keys and rows."""
    import tensorflow as tf
    from tensorflow_recommenders_addons import dynamic_embedding as de

    keys = known_keys(dtype)
    rows = np.random.default_rng(8).normal(size=(len(keys), 4)).astype(np.float32)
    variable = de.get_variable(
        name,
        key_dtype=tf.string if dtype is str else tf.as_dtype(dtype),
        value_dtype=tf.as_dtype(value),
        dim=4,
        devices=["/CPU:0"] * shards,
        kv_creator=_saver(files),
        **{"initializer": 0.0, **more},
    )
    return variable, variable.upsert(tf.constant(keys), tf.cast(tf.constant(rows), value))


def _save_function(folder: str, held: Any, function: Callable[..., Any], **inputs: tuple[Any, list[Any]]) -> None:
    """Save a function of what is held as a SavedModel of TensorFlow 2."""
    import tensorflow as tf

    module = tf.Module()
    module.held = held
    specs = {name: tf.TensorSpec(shape, dtype, name) for name, (dtype, shape) in inputs.items()}
    module.call = tf.function(function, autograph=False, input_signature=list(specs.values()))
    tf.saved_model.save(module, folder, signatures=module.call)


def _save_layer(folder: str, kind: str, *, shards: int, files: bool, shape: list[Any], **more: Any) -> None:
    """Save a Keras model of one layer of embeddings and one after it."""
    import tensorflow as tf
    import tf_keras
    from tensorflow_recommenders_addons import dynamic_embedding as de

    tf.random.set_seed(0)
    more["initializer"] = getattr(tf_keras.initializers, more.get("initializer", "Zeros"))()
    layer = getattr(de.keras.layers, kind)(
        embedding_size=4,
        devices=["/CPU:0"] * shards,
        kv_creator=_saver(files),
        name=f"items_{shards}_{files}_{kind}",
        **more,
    )
    rows = np.random.default_rng(8).normal(size=(_KEYS, 4)).astype(np.float32)
    layer.params.upsert(tf.constant(known_keys()), tf.constant(rows))
    given = tf_keras.Input(shape, dtype=tf.int64, name="ids")
    answer = tf_keras.layers.Dense(3, name="answer")(layer(given))
    model = tf_keras.Model(given, answer)
    model(tf.constant(known_keys()[:6].reshape([2] + [3] * len(shape))) if shape else tf.constant(known_keys()[:6]))
    options = tf.saved_model.SaveOptions(namespace_whitelist=["TFRA"])
    tf_keras.models.save_model(model, folder, options=options, save_format="tf", include_optimizer=False)


@_model("layer", _dense(3))
def _layer(folder: str) -> None:
    _save_layer(folder, "Embedding", shards=1, files=False, shape=[3])


@_model("layer_of_shards_in_files", _dense(3))
def _layer_of_shards(folder: str) -> None:
    _save_layer(folder, "Embedding", shards=4, files=True, shape=[3], initializer="Ones")


@_model("pooled_layer_in_files", _dense(3))
def _pooled(folder: str) -> None:
    _save_layer(folder, "SquashedEmbedding", shards=1, files=True, shape=[3], combiner="sum")


@_model("layer_of_fields", _dense(3))
def _fields(folder: str) -> None:
    import tensorflow as tf

    mapping = tf.function(lambda ids: tf.math.floormod(ids, 2))
    more = {"nslots": 2, "slot_map_fn": mapping, "combiner": "sum"}
    _save_layer(folder, "FieldWiseEmbedding", shards=4, files=False, shape=[3], **more)


@_model("exists_of_int32", _dense(2, dtype=np.int32))
def _exists(folder: str) -> None:
    import tensorflow as tf

    variable, _ = _variable("things", 4, dtype=np.int32, initializer=0.5)

    def call(ids: Any) -> Any:
        rows, exists = variable.lookup(tf.reshape(ids, [-1]), return_exists=True)
        return {"rows": rows, "exists": exists}

    _save_function(folder, variable, call, ids=(tf.int32, [None, 2]))


@_model("text", _dense(2, dtype=str))
def _text(folder: str) -> None:
    import tensorflow as tf

    variable, _ = _variable("words", 4, dtype=str)
    _save_function(
        folder, variable, lambda ids: {"rows": variable.lookup(tf.reshape(ids, [-1]))}, ids=(tf.string, [None, 2])
    )


@_model("half_in_files", _dense(2))
def _half(folder: str) -> None:
    import tensorflow as tf

    variable, _ = _variable("halves", 1, value="float16", files=True)

    def call(ids: Any) -> Any:
        return {
            "sums": tf.reduce_sum(
                tf.cast(tf.reshape(variable.lookup(tf.reshape(ids, [-1])), [-1, 2, 4]), tf.float32), 1
            )
        }

    _save_function(folder, variable, call, ids=(tf.int64, [None, 2]))


def _save_sparse(folder: str, shards: int, combiner: str, *, safe: bool, weights: bool, files: bool) -> None:
    """Save a bag over a sparse tensor."""
    import tensorflow as tf
    from tensorflow_recommenders_addons import dynamic_embedding as de

    variable, _ = _variable(f"bags_{shards}_{combiner}", shards, files=files)
    shadow = de.shadow_ops.ShadowVariable(variable, name="shadow")
    look_up = de.safe_embedding_lookup_sparse if safe else de.embedding_lookup_sparse

    def call(indices: Any, ids: Any, shape: Any, *weighted: Any) -> Any:
        parts = tf.SparseTensor(indices, ids, shape)
        weighing = tf.SparseTensor(indices, weighted[0], shape) if weighted else None
        return {"bags": look_up(shadow, parts, weighing, combiner=combiner, name="look_up")}

    inputs: dict[str, Any] = {"indices": (tf.int64, [None, 2]), "ids": (tf.int64, [None]), "shape": (tf.int64, [2])}
    if weights:
        inputs["weights"] = (tf.float32, [None])
    _save_function(folder, [variable, shadow], call, **inputs)


@_model("bag_of_means", _sparse())
def _means(folder: str) -> None:
    _save_sparse(folder, 1, "mean", safe=False, weights=False, files=True)


@_model("safe_bag_of_sums_of_shards", _sparse(empty=True))
def _sums(folder: str) -> None:
    _save_sparse(folder, 4, "sum", safe=True, weights=False, files=False)


@_model("safe_weighted_bag_of_shards", _sparse(empty=True, weights=True))
def _weighted(folder: str) -> None:
    _save_sparse(folder, 4, "sqrtn", safe=True, weights=True, files=True)


def _save_graph(
    folder: str, shards: int, call: Callable[..., Any], *, files: bool, **inputs: tuple[Any, list[Any]]
) -> None:
    """Save a graph of TensorFlow 1, as estimators do."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        given = {name: v1.placeholder(dtype, shape, name) for name, (dtype, shape) in inputs.items()}
        variable, filled = _variable("items", shards, files=files)
        answers = call(variable, **given)
        session.run(v1.global_variables_initializer())
        session.run(filled)
        v1.saved_model.simple_save(session, folder, given, answers)


@_model("graph_of_sequences", _dense(3))
def _sequences(folder: str) -> None:
    import tensorflow as tf
    from tensorflow_recommenders_addons import dynamic_embedding as de

    def call(variable: Any, ids: Any) -> Any:
        rows = de.embedding_lookup_unique(variable, ids, name="look_up")
        return {"last": tf.cumsum(rows, 1)[:, -1], "rows": rows}

    _save_graph(folder, 4, call, files=False, ids=(tf.int64, [None, 3]))


@_model("graph_of_safe_bags", _sparse(empty=True, weights=True))
def _graph_bags(folder: str) -> None:
    import tensorflow as tf
    from tensorflow_recommenders_addons import dynamic_embedding as de

    def call(variable: Any, indices: Any, ids: Any, shape: Any, weights: Any) -> Any:
        parts, weighing = (tf.SparseTensor(indices, values, shape) for values in (ids, weights))
        return {"bags": de.safe_embedding_lookup_sparse(variable, parts, weighing, combiner="mean")}

    inputs: dict[str, Any] = {"indices": (tf.int64, [None, 2]), "ids": (tf.int64, [None]), "shape": (tf.int64, [2])}
    _save_graph(folder, 1, call, files=False, **inputs, weights=(tf.float32, [None]))


def answers(folder: Path, batches: list[Arrays]) -> list[Arrays]:
    """What a SavedModel answers to batches, loaded as servers load it: Python's loader leaves files of keys unread."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], str(folder)).signature_def["serving_default"]
        wanted = {key: info.name for key, info in signature.outputs.items()}
        feeds = [{signature.inputs[key].name: value for key, value in batch.items()} for batch in batches]
        return [session.run(wanted, feed) for feed in feeds]


def main(folder: Path) -> int:
    """Write the archives."""
    from tensorflow_recommenders_addons import dynamic_embedding as de

    de.enable_inference_mode()
    for name, (save, batch) in MODELS.items():
        place = Path(tempfile.mkdtemp())
        save(str(place / "saved_model"))
        drawn = np.random.default_rng(len(name))
        batches = [batch(drawn) for _ in range(3)]
        for k, (given, answered) in enumerate(zip(batches, answers(place / "saved_model", batches), strict=True)):
            arrays = {f"given {key}": value for key, value in given.items()}
            arrays |= {f"answer {key}": value for key, value in answered.items()}
            np.savez(place / f"{k}.npz", **{key: _as_text(value) for key, value in arrays.items()})
        with zipfile.ZipFile(folder / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(path for path in place.rglob("*") if path.is_file() and path.name != "fingerprint.pb"):
                archive.write(file, file.relative_to(place))
        shutil.rmtree(place)
    return 0


def _as_text(array: np.ndarray) -> np.ndarray:
    """Bytes as text, as files of arrays hold no objects."""
    return array.astype("S") if array.dtype == object else array


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
