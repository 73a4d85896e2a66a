"""A serving signature that takes serialized tf.Example messages is converted whole, parser and model."""

from __future__ import annotations

import json

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.cli import main  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402
from onnx_sparse.schemas import DOMAIN  # noqa: E402

pytestmark = pytest.mark.slow

FEATURES = {
    "ids": tf.io.VarLenFeature(tf.int64),
    "weights": tf.io.VarLenFeature(tf.float32),
    "user": tf.io.FixedLenFeature([], tf.string, "nobody"),
    "age": tf.io.FixedLenFeature([2], tf.float32),
    "tags": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64),
}


class Scorer(tf.Module):
    """Embeds weighted ids, and strings by their hash."""

    def __init__(self):
        super().__init__()
        random = np.random.default_rng(0)
        self.items = tf.Variable(random.standard_normal((100, 4)).astype(np.float32))
        self.words = tf.Variable(random.standard_normal((50, 4)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(self, examples):
        parsed = tf.io.parse_example(examples, FEATURES)
        weights = parsed["weights"].with_values(tf.abs(parsed["weights"].values) + 0.1)
        items = tf.nn.safe_embedding_lookup_sparse(self.items, parsed["ids"], weights, combiner="mean")
        user = tf.gather(self.words, tf.strings.to_hash_bucket_fast(parsed["user"], 50))
        tags = tf.gather(self.words, tf.strings.to_hash_bucket_fast(parsed["tags"], 50))
        return {"rows": tf.concat([items, user, parsed["age"], tf.reduce_sum(tags, axis=1)], axis=1)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scorer")
    scorer = Scorer()
    tf.saved_model.save(scorer, folder, signatures=scorer.serve)
    return folder


def test_a_serving_signature_is_verified(saved):
    model = convert(saved)
    ours = {node.op_type for node in model.graph.node if node.domain == DOMAIN}
    assert {"ParseExample", "StringToHashBucketFast", "EmbeddingSegmentsMean"} <= ours
    (record,) = verify(saved, model)
    assert record.ok
    assert record.batches == 4, record.note


def test_messages_are_given(saved):
    """Also an array that is made for ONNX Runtime."""
    features = {
        "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=[3, 99])),
        "weights": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5, 2])),
        "age": tf.train.Feature(float_list=tf.train.FloatList(value=[41, 0])),
    }
    message = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    messages = [message, message[: message.index(b"\n")] + message]
    model = convert(saved)
    for feed in (onnx_sparse.example_array(messages), np.array(messages, object)):
        (record,) = verify(saved, model, feeds={"examples": feed})
        assert record.ok, record.note


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_a_file_that_tensorflow_wrote(saved, tmp_path, capsys, compression):
    path = tmp_path / "records"
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for age in (40, 50):
            features = {"age": tf.train.Feature(float_list=tf.train.FloatList(value=[age, 0]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    out = tmp_path / "model.onnx"
    assert main(["convert", str(saved), "-o", str(out), "--verify-with", f"examples={path}"]) == 0
    assert main(["run", str(out), "--input", f"examples={path}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))["outputs"][0]["shape"] == [2, 14]


def test_on_the_command_line(saved, tmp_path, capsys):
    assert main(["convert", str(saved), "-o", str(tmp_path / "model.onnx"), "--verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["convert", str(saved), "-o", str(tmp_path / "portable.onnx"), "--portable"]) == 1
    assert "ParseExample" in capsys.readouterr().err
    assert not (tmp_path / "portable.onnx").exists()
    assert main(["inspect", str(tmp_path / "model.onnx")]) == 0
    assert "cuts messages at their first zero byte" in capsys.readouterr().out
