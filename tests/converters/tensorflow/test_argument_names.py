"""What the features of a function are called that takes dicts, lists, and sparse and ragged tensors in them."""

import itertools
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import onnx_sparse
from onnx_sparse.cli import main
from onnx_sparse.converters.tensorflow import convert, load, verify

#: Keys that are also what TensorFlow or the converter could call other tensors.
KEYS = ("a", "f", "f_1", "f_2", "g", "items", "items_1", "items_values", "items_row_splits", "ö b", "x_", "x__values")

ROWS = 3


def _leaf(rng):
    """The spec of a feature, and its rows."""
    kind = rng.choice(["dense", "ragged", "sparse", "twice ragged"])
    numbers = iter(rng.permutation(1000).tolist())
    lists = [[next(numbers) for _ in range(rng.integers(0, 4))] for _ in range(ROWS)]
    if kind == "dense":
        return tf.TensorSpec([None], tf.int64), list(itertools.islice(numbers, ROWS))
    if kind == "ragged":
        return tf.RaggedTensorSpec([None, None], tf.int64), lists
    if kind == "sparse":
        return tf.SparseTensorSpec([None, None], tf.int64), lists
    return tf.RaggedTensorSpec([None, None, None], tf.int64, 2), [[row, []] for row in lists]


def _structure(rng, depth=0):
    """A structure of such features."""
    chosen = rng.choice(["leaf", "leaf", "dict", "list"]) if depth else "dict"
    if depth > 1 or chosen == "leaf":
        return _leaf(rng)
    parts = [_structure(rng, depth + 1) for _ in range(rng.integers(1, 4 - depth))]
    if chosen == "list":
        return parts
    return dict(zip(rng.choice(KEYS, len(parts), replace=False).tolist(), parts, strict=True))


def _mapped(structure, change):
    if isinstance(structure, dict):
        return {key: _mapped(part, change) for key, part in structure.items()}
    return [_mapped(part, change) for part in structure] if isinstance(structure, list) else change(structure)


def _leaves(structure, path=()):
    """The features in a structure with the keys that lead to them, in TensorFlow's order."""
    if isinstance(structure, tuple):
        yield path, structure
        return
    items = sorted(structure.items()) if isinstance(structure, dict) else enumerate(structure)
    for key, part in items:
        yield from _leaves(part, (*path, str(key)))


def _total(tensor):
    """A number that tells the rows of a feature apart."""
    if isinstance(tensor, tf.SparseTensor):
        return tf.reduce_sum(tensor.values * (tensor.indices[:, 0] + 1))
    if isinstance(tensor, tf.RaggedTensor):
        rows = tf.reduce_sum(tensor, axis=list(range(1, tensor.shape.rank)))
        return tf.reduce_sum(rows * tf.range(1, tf.size(rows, tf.int64) + 1))
    return tf.reduce_sum(tensor * tf.range(1, tf.size(tensor, tf.int64) + 1))


def _module(f, g):
    """A module whose function takes the structure and another feature, and gives a number for each feature."""

    @tf.function(input_signature=[_mapped(f, lambda leaf: leaf[0]), g[0]], autograph=False)
    def serve(f, g):
        tensors = [*_in_order(f), g]
        return {"totals": tf.stack([_total(tensor) for tensor in tensors])}

    module = tf.Module()
    module.serve = serve
    return module


def _in_order(structure):
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in _in_order(structure[key])]
    return [leaf for part in structure for leaf in _in_order(part)] if isinstance(structure, list) else [structure]


def _expected_total(rows):
    return sum(_sum(row) * (position + 1) for position, row in enumerate(rows))


def _sum(row):
    return sum(map(_sum, row)) if isinstance(row, list) else row


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_features_are_called_by_the_keys_of_their_structure(seed, tmp_path):
    rng = np.random.default_rng(seed)
    f, g = _structure(rng), _leaf(rng)
    leaves = [*_leaves(f), ((), g)]
    wanted = ["_".join(path) or "g" for path, _ in leaves]
    wanted = [
        f"f_{name}" if wanted.count(name) > 1 and path else name for name, (path, _) in zip(wanted, leaves, strict=True)
    ]
    module = _module(f, g)
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    for source in (load(tmp_path), load(tmp_path, function="serve"), load(module.serve)):
        model = convert(source)
        features = onnx_sparse.features(model)
        assert len(features) == len(leaves)
        for name, feature in features.items():
            others = {part for other in features.values() if other != feature for part in other.inputs.values()}
            assert name not in others, f"{name} is a feature, and a part of another"
        assert {name for name, count in Counter(wanted).items() if count == 1} <= set(features)
        if len(set(wanted)) < len(wanted):
            continue  # no rule says which is which
        rows = {name: leaf[1] for name, (_, leaf) in zip(wanted, leaves, strict=True)}
        (totals,) = onnx_sparse.InferenceSession(model).run(None, features.feeds(rows))
        assert totals.tolist() == [_expected_total(rows) for _, (_, rows) in leaves]
    (record,) = verify(source, model)
    assert record.ok, record.note


def _saved(folder, function):
    module = tf.Module()
    module.serve = function
    tf.saved_model.save(module, str(folder), signatures=function)
    return folder


def test_a_dict_of_features_by_every_door(tmp_path):
    """Rows of a file, inputs of `run` and of `predict`, and the inputs that TensorFlow's tools name, have the keys."""

    @tf.function(input_signature=[{"age": tf.TensorSpec([None]), "items": tf.RaggedTensorSpec([None, None], tf.int64)}])
    def serve(f):
        return {"score": f["age"] + tf.cast(tf.reduce_sum(f["items"], 1), tf.float32)}

    source, path, out = _saved(tmp_path / "saved", serve), tmp_path / "m.onnx", tmp_path / "out.npz"
    onnx_sparse.convert(source, path)
    session = onnx_sparse.InferenceSession(path)
    features = onnx_sparse.features(session)
    assert {name: feature.kind for name, feature in features.items()} == {"age": "dense", "items": "ragged"}
    assert features["items"].inputs == {"values": "items_values", "row_splits": "items_row_splits"}
    rows = {"age": [1.0, 2.0], "items": [[3, 4], []]}
    assert np.asarray(session.predict(rows)["score"]).tolist() == [8, 2]
    named = convert(source, inputs=["f_2", "f_1", "f:0"])  # as the signature calls them
    assert [value.name for value in named.graph.input] == ["items_row_splits", "items_values", "age"]
    (tmp_path / "rows.jsonl").write_text('{"age": 1, "items": [3, 4]}\n{"age": 2, "items": []}\n')
    onnx_sparse.score(path, tmp_path / "rows.jsonl", tmp_path / "scores.parquet")
    assert pq.read_table(tmp_path / "scores.parquet")["score"].to_pylist() == [8, 2]
    assert main(["run", str(path), "--input", "age=[1, 2]", "--input", "items=[[3, 4], []]", "-o", str(out)]) == 0
    assert np.load(out)["score"].tolist() == [8, 2]


def test_names_that_the_user_gave_stay(tmp_path):
    spec = {"b": tf.TensorSpec([2], name="years"), "a": tf.TensorSpec([2])}

    @tf.function(input_signature=[spec, tf.RaggedTensorSpec([None, None])])
    def serve(f, words):
        return {"y": f["a"] + f["b"] + tf.reduce_sum(words)}

    for source in (load(_saved(tmp_path, serve)), load(serve)):
        assert sorted(port.name for port in source.inputs) == ["a", "words", "words_1", "years"]


def test_parts_of_an_argument_do_not_take_the_name_of_another(tmp_path):
    """TensorFlow calls the row splits of the first argument as the user calls the second."""

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None]), tf.TensorSpec([None])])
    def serve(items, items_1):
        return {"y": tf.reduce_sum(items) + items_1}

    for source in (_saved(tmp_path, serve), serve):
        features = onnx_sparse.features(convert(source))
        assert {name: tuple(feature.inputs.values()) for name, feature in features.items()} == {
            "items": ("items_values", "items_row_splits"),
            "items_1": ("items_1",),
        }


def test_features_without_keys_have_no_input_of_another(tmp_path):
    """TensorFlow's names f, f_1, f_2, f_3 of two ragged tensors in a list: f_1 are row splits."""

    @tf.function(input_signature=[[tf.RaggedTensorSpec([None, None]), tf.RaggedTensorSpec([None, None])]])
    def serve(f):
        return {"y": tf.reduce_sum(f[0], 1) + tf.reduce_sum(f[1], 1)}

    features = onnx_sparse.features(convert(_saved(tmp_path, serve)))
    assert {name: tuple(feature.inputs.values()) for name, feature in features.items()} == {
        "f": ("f", "f_1"),
        "f_2": ("f_2", "f_3"),
    }


def test_an_output_with_the_name_of_an_input_is_noted(tmp_path):
    @tf.function(input_signature=[{"age": tf.TensorSpec([None]), "size": tf.TensorSpec([None])}])
    def serve(f):
        return {"age": f["age"] + 1.0, "score": f["size"] + f["age"]}

    for source in (_saved(tmp_path, serve), serve):
        with pytest.warns(
            UserWarning, match="output 'age' is called 'age_1': another input or output of the model has"
        ):
            model = convert(source)
        assert [value.name for value in model.graph.output] == ["age_1", "score"]
        with pytest.warns(UserWarning, match="output 'age'"):
            model = convert(source, outputs=["age"])
        assert [value.name for value in model.graph.output] == ["age_1"]


def test_nested_results_of_a_function_have_the_names_of_their_keys(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None], name="x")])
    def serve(x):
        return {"pair": (x, x + 1.0), "one": {"deep": x * 2.0}, "rows": tf.sparse.from_dense(x)}

    module = tf.Module()
    module.serve = serve
    tf.saved_model.save(module, str(tmp_path))
    expected = ["one_deep", "pair_0", "pair_1", "rows_dense_shape", "rows_indices", "rows_values"]
    for source in (load(tmp_path, function="serve"), load(serve)):
        assert sorted(port.name for port in source.outputs) == expected
        x = np.float32([1, 0, 3])
        answers = dict(zip([port.name for port in source.outputs], source.run({"x": x}), strict=True))
        assert answers["one_deep"].tolist() == [2, 0, 6]
        assert answers["rows_indices"].tolist() == [[0], [2]]
