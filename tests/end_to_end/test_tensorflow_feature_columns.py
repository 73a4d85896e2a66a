"""Models of TensorFlow's feature columns, as estimators save them: convert, shrink, verify."""

from __future__ import annotations

import warnings

import pytest

tf = pytest.importorskip("tensorflow")

from google.protobuf import text_format  # noqa: E402

from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402
from onnx_sparse.schemas import DOMAIN  # noqa: E402

pytestmark = pytest.mark.slow

v1 = tf.compat.v1
columns = v1.feature_column

IDS = columns.categorical_column_with_identity("ids", 20)
WORDS = columns.categorical_column_with_vocabulary_list("words", ["red", "green", "blue"])
HASHED = columns.categorical_column_with_hash_bucket("words", 50)
HASHED_IDS = columns.categorical_column_with_hash_bucket("ids", 50, dtype=tf.int64)
WEIGHTED = columns.weighted_categorical_column(IDS, "weights")
AGE = columns.numeric_column("age")
BUCKETS = columns.bucketized_column(AGE, [18.0, 30.0, 65.0])

# The features, the model, and the most nodes that may be left of it.
MODELS = {
    "linear": (["ids"], lambda f: columns.linear_model(f, [IDS]), 11),
    "embedding": (["ids"], lambda f: columns.input_layer(f, [columns.embedding_column(IDS, 4)]), 7),
    "weighted": (["ids", "weights"], lambda f: columns.input_layer(f, [columns.embedding_column(WEIGHTED, 4)]), 12),
    "bucketized": (["age"], lambda f: columns.input_layer(f, [BUCKETS]), 11),
    "linear and bucketized": (["age"], lambda f: columns.linear_model(f, [BUCKETS]), 37),
    "indicator": (["ids"], lambda f: columns.input_layer(f, [columns.indicator_column(IDS)]), 8),
    "indicator of words": (["words"], lambda f: columns.input_layer(f, [columns.indicator_column(WORDS)]), 9),
    "embedding of words": (["words"], lambda f: columns.input_layer(f, [columns.embedding_column(WORDS, 4)]), 8),
    "linear of hashed words": (["words"], lambda f: columns.linear_model(f, [HASHED]), 12),
    "indicator of hashed words": (["words"], lambda f: columns.input_layer(f, [columns.indicator_column(HASHED)]), 9),
    "embedding of hashed words": (
        ["words"],
        lambda f: columns.input_layer(f, [columns.embedding_column(HASHED, 4)]),
        8,
    ),
    "embedding of hashed ids": (
        ["ids"],
        lambda f: columns.input_layer(f, [columns.embedding_column(HASHED_IDS, 4)]),
        9,
    ),
    "embedding of hashed dense words": (
        ["text"],
        lambda f: columns.input_layer({"words": f["text"]}, [columns.embedding_column(HASHED, 4)]),
        14,
    ),
    "wide and deep": (
        ["ids", "words", "age"],
        lambda f: (
            columns.linear_model(f, [IDS, WORDS, BUCKETS])
            + columns.input_layer(f, [columns.embedding_column(IDS, 1)])
            + columns.input_layer(f, [AGE])
        ),
        85,
    ),
}


def feature(name):
    if name == "age":
        return v1.placeholder(tf.float32, [None, 1], name)
    if name == "text":
        return v1.placeholder(tf.string, [None, 1], name)
    dtype = {"ids": tf.int64, "words": tf.string, "weights": tf.float32}[name]
    return v1.sparse_placeholder(dtype, [None, None], name)


def save(path, names, model):
    """Save a model with random weights, through TensorFlow 1's interface."""
    with tf.Graph().as_default(), v1.Session() as session, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        v1.set_random_seed(1)
        features = {name: feature(name) for name in names}
        outputs = {"y": model(features)}
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        inputs = {}
        for name, value in features.items():
            if isinstance(value, tf.Tensor):
                inputs[name] = value
            else:
                parts = ("indices", "values", "dense_shape")
                inputs |= {f"{name}_{part}": getattr(value, part) for part in parts}
        initialize = v1.tables_initializer()
        v1.saved_model.simple_save(session, str(path), inputs, outputs, legacy_init_op=initialize)


@pytest.mark.parametrize("name", MODELS)
def test_feature_columns(name, tmp_path):
    names, model, most = MODELS[name]
    save(tmp_path / "saved", names, model)
    converted = convert(tmp_path / "saved")
    assert len(converted.graph.node) <= most
    assert not {node.op_type for node in converted.graph.node} & {"Unique", "SparseFillEmptyRows"}
    (record,) = verify(tmp_path / "saved", converted)
    assert record.ok, record.note
    assert record.max_abs < 1e-6


def test_a_frozen_wide_model(tmp_path):
    """An int32 input, Bucketize, two SparseReshape and a lookup: the part of Wide & Deep that reads an age."""
    age = columns.numeric_column("age", dtype=tf.int32)
    buckets = columns.bucketized_column(age, [18, 25, 30, 35, 40, 45, 50, 55, 60, 65])
    with tf.Graph().as_default() as graph, v1.Session() as session, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        features = {"age": tf.expand_dims(v1.placeholder(tf.int32, [1], "age"), -1)}
        output = columns.linear_model(features, [buckets], sparse_combiner="sum")
        session.run(v1.global_variables_initializer())
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), [output.op.name])
    path = tmp_path / "wide.pbtxt"
    path.write_text(text_format.MessageToString(frozen))
    assert {"Bucketize", "SparseReshape", "SparseFillEmptyRows"} <= {node.op for node in frozen.node}
    model = convert(path, outputs=[output.op.name])
    ours = [node.op_type for node in model.graph.node if node.domain == DOMAIN]
    assert ours == ["EmbeddingSegmentsSum"]
    assert [value.type.tensor_type.elem_type for value in model.graph.input] == [6]  # int32
    (record,) = verify(path, model, outputs=[output.op.name])
    assert (record.ok, record.max_abs, record.note) == (True, 0, "")
