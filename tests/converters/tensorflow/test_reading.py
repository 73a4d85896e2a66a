"""TensorFlow's files read without TensorFlow: each kind, their variables and tables, and damaged ones."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf
from support.tensorflow_imports import answers
from tensorflow.core.protobuf import saved_model_pb2
from torture.mutations import mutate_message, mutated_bytes

from onnx_sparse import InferenceSession, StatefulSession
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow import convert
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef, SavedModel

V1 = tf.compat.v1
IDS = np.array([[0, 5, 10], [3, 3, 1]])


class Lookup(tf.Module):
    """A model with a variable, a table of words, and functions in functions."""

    def __init__(self, words: Path) -> None:
        super().__init__()
        self.rows = tf.Variable(tf.random.normal([11, 4], seed=1), name="rows")
        file = tf.lookup.TextFileInitializer(
            str(words), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        self.words = tf.lookup.StaticHashTable(file, 7)
        pairs = tf.lookup.KeyValueTensorInitializer([1, 2], tf.constant(["one", "two"]), tf.int64)
        self.names = tf.lookup.StaticHashTable(pairs, "?")

    @tf.function(autograph=False)
    def sum(self, ids: Any) -> Any:
        return tf.reduce_sum(tf.gather(self.rows, ids), 1)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None], tf.string, name="words")])
    def serve(self, words: Any) -> Any:
        ids = self.words.lookup(words)
        return {"sum": self.sum(ids), "names": self.names.lookup(ids)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lookup]:
    folder = tmp_path_factory.mktemp("saved")
    (folder / "words.txt").write_text("a\nb\nc\n")
    model = Lookup(folder / "words.txt")
    tf.saved_model.save(model, str(folder / "model"), {"serving_default": model.serve, "other": model.serve})
    return folder / "model", model


def train(build: Callable[[], Any], folder: Path, run: Callable[[Any], Any]) -> Any:
    """What a function makes of a session of TensorFlow 1, in which `build` made a graph."""
    folder.mkdir(exist_ok=True)
    with tf.Graph().as_default() as graph, V1.Session(graph=graph) as session:
        made = build()
        session.run(V1.global_variables_initializer())
        return run((session, made))


def lookup_of_tensorflow_1() -> tuple[Any, Any]:
    ids = V1.placeholder(tf.int64, [None, 3], name="ids")
    table = V1.get_variable(
        "e", [11, 4], partitioner=V1.fixed_size_partitioner(3), initializer=V1.random_normal_initializer(seed=1)
    )
    return ids, tf.identity(tf.reduce_sum(V1.nn.embedding_lookup(table, ids), 1), name="y")


def test_saved_model_with_variables_tables_and_functions(saved):
    path, model = saved
    words = np.array([[b"a", b"c"], [b"?", b"b"]], object)
    names, total = answers(convert(path), [words])
    expected = model.serve(tf.constant(words))
    np.testing.assert_array_equal(total, expected["sum"].numpy())
    assert names.tolist() == [[text.decode() for text in row] for row in expected["names"].numpy()]


def test_no_tensorflow_is_imported(saved):
    program = f"""
import importlib.abc, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "tf2onnx", "keras"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Refuse())
from pathlib import Path
from onnx_sparse.converters.tensorflow import convert
print([value.name for value in convert(Path({str(saved[0])!r})).graph.output])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['names', 'sum']\n"


def test_messages_beside_those_of_tensorflow(saved):
    content = (saved[0] / "saved_model.pb").read_bytes()
    theirs = saved_model_pb2.SavedModel.FromString(content)
    ours = SavedModel.FromString(content)
    assert ours.meta_graphs[0].meta_info_def.tags == theirs.meta_graphs[0].meta_info_def.tags == ["serve"]
    assert [n.name for n in ours.meta_graphs[0].graph_def.node] == [
        n.name for n in theirs.meta_graphs[0].graph_def.node
    ]


def test_text_form(saved, tmp_path):
    from google.protobuf import text_format

    message = SavedModel.FromString((saved[0] / "saved_model.pb").read_bytes())
    for name in ("variables", "assets"):
        shutil.copytree(saved[0] / name, tmp_path / name)
    (tmp_path / "saved_model.pbtxt").write_text(text_format.MessageToString(message))
    assert [value.name for value in convert(tmp_path).graph.input] == ["words"]


def test_graph_for_serving_among_several(tmp_path):
    def save(made: Any) -> Any:
        session, (ids, y) = made
        info = V1.saved_model.build_tensor_info
        signature = V1.saved_model.build_signature_def({"ids": info(ids)}, {"y": info(y)}, "predict")
        builder = V1.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(session, ["train"], signature_def_map={"serving_default": signature})
        builder.add_meta_graph(["serve"], signature_def_map={"serving_default": signature})
        builder.save()
        return session.run(y, {ids: IDS})

    want = train(lookup_of_tensorflow_1, tmp_path, save)
    for tag in (None, "serve", "train"):
        (got,) = answers(convert(tmp_path / "model", tag=tag), [IDS])
        np.testing.assert_allclose(got, want, rtol=1e-6)
    with pytest.raises(ConversionError, match="no graph with the tag 'tpu'; the tags are: train; serve"):
        convert(tmp_path / "model", tag="tpu")


def test_sparse_input_of_tensorflow_1(tmp_path):
    def build() -> Any:
        x = V1.sparse_placeholder(tf.float32, [None, 16], name="sp")
        weights = V1.get_variable("w", [16, 5], initializer=V1.random_normal_initializer(seed=2))
        return x, tf.nn.softmax(tf.sparse.sparse_dense_matmul(x, weights))

    feeds = [np.array([[0, 1], [0, 3], [2, 15]]), np.float32([1, 2, 3]), np.array([4, 16])]

    def save(made: Any) -> Any:
        session, (x, y) = made
        info = V1.saved_model.build_tensor_info
        signature = V1.saved_model.build_signature_def({"feats": info(x)}, {"y": info(y)}, "predict")
        builder = V1.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={"slide": signature})
        builder.save()
        return session.run(y, {x: V1.SparseTensorValue(*feeds)})

    want = train(build, tmp_path, save)
    model = convert(tmp_path / "model")
    assert [value.name for value in model.graph.input] == ["feats_indices", "feats_values", "feats_dense_shape"]
    np.testing.assert_allclose(answers(model, feeds)[0], want, rtol=1e-5)


def test_checkpoint_of_tensorflow_1_with_partitions(tmp_path):
    def save(made: Any) -> Any:
        session, (ids, y) = made
        V1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
        return session.run(y, {ids: IDS})

    want = train(lookup_of_tensorflow_1, tmp_path, save)
    model = convert(tmp_path / "model.ckpt.meta", inputs=["ids:0"], outputs=["y:0"])
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == ["ids:0", "y:0"]
    np.testing.assert_allclose(answers(model, [IDS])[0], want, rtol=1e-6)


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt"])
def test_frozen_graph(tmp_path, suffix):
    with tf.Graph().as_default() as graph:
        x = V1.placeholder(tf.float32, [None, 2], name="x")
        tf.identity(tf.matmul(x, tf.constant([[1.0, 2], [3, 4]])), name="y")
    tf.io.write_graph(graph.as_graph_def(), str(tmp_path), f"graph{suffix}", as_text=suffix == ".pbtxt")
    model = convert(tmp_path / f"graph{suffix}")
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == ["x", "y"]
    assert answers(model, [np.float32([[1, 2]])])[0].tolist() == [[7, 10]]


def test_inputs_of_unknown_rank(tmp_path):
    """A parser takes messages of one rank; for numbers that are multiplied, the rank must be said."""

    def build() -> Any:
        factor = V1.get_variable("a", initializer=0.5)
        messages = V1.placeholder(tf.string, name="messages")
        x = tf.identity(V1.parse_example(messages, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"], "x")
        return messages, x, tf.identity(factor * x, "y")

    def save(made: Any) -> None:
        session, (messages, x, y) = made
        info, define = V1.saved_model.build_tensor_info, V1.saved_model.build_signature_def
        builder = V1.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
        signatures = {"parsed": define({"in": info(messages)}, {"y": info(y)}, "regress")}
        unknown = info(x)
        unknown.tensor_shape.CopyFrom(tf.TensorShape(None).as_proto())
        signatures["numbers"] = define({"x": unknown}, {"y": info(y)}, "predict")
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=signatures)
        builder.save()

    train(build, tmp_path, save)
    (given,) = convert(tmp_path / "model", signature="parsed").graph.input
    assert len(given.type.tensor_type.shape.dim) == 1
    with pytest.raises(ConversionError, match="input x has no known rank; say its shape with its name"):
        convert(tmp_path / "model", signature="numbers")
    model = convert(tmp_path / "model", signature="numbers", inputs=["x[-1,1]"])
    assert answers(model, [np.float32([[3], [4]])])[0].tolist() == [[1.5], [2]]


def rewritten(path: Path, tmp_path: Path, change: Callable[[Any], None]) -> Path:
    """A copy of a SavedModel with another message."""
    message = SavedModel.FromString((path / "saved_model.pb").read_bytes())
    change(message.meta_graphs[0])
    (tmp_path / "saved_model.pb").write_bytes(message.SerializeToString())
    for name in ("variables", "assets"):
        shutil.copytree(path / name, tmp_path / name)
    return tmp_path


def test_damaged_variable(saved, tmp_path):
    for file in saved[0].rglob("*.*"):
        copy = tmp_path / file.relative_to(saved[0])
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(file.read_bytes())
    shard = tmp_path / "variables" / "variables.data-00000-of-00001"
    content = bytearray(shard.read_bytes())
    content[7] ^= 1
    shard.write_bytes(content)
    with pytest.raises(ConversionError, match=r"is damaged: rows.* does not have its checksum"):
        convert(tmp_path)


def test_functions_that_call_themselves(saved, tmp_path):
    def change(meta_graph: Any) -> None:
        for function in meta_graph.graph_def.library.function:
            for node in function.node_def:
                if node.op.endswith("PartitionedCall"):
                    node.attr["f"].func.name = function.signature.name

    with pytest.raises(ConversionError, match=r"arguments, not|more than 200 deep"):
        convert(rewritten(saved[0], tmp_path, change))


def test_graph_that_is_a_circle(tmp_path):
    graph = GraphDef()
    for name, given in (("a", "b"), ("b", "a")):
        node = graph.node.add(name=name, op="Sqrt", input=[given])
        node.attr["T"].type = 1
    (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
    with pytest.raises(ConversionError, match="made from itself"):
        convert(tmp_path / "graph.pb", outputs=["a"])


def test_constant_that_claims_much_memory(tmp_path):
    graph = GraphDef()
    node = graph.node.add(name="a", op="Const")
    node.attr["dtype"].type = node.attr["value"].tensor.dtype = 1
    node.attr["value"].tensor.tensor_shape.dim.add(size=2**50)
    (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
    with pytest.raises(ConversionError, match="is too large"):
        convert(tmp_path / "graph.pb", outputs=["a"])


class TestAssetsOfTensorFlow1:
    """They are named in a collection."""

    @pytest.fixture
    def lookup(self, tmp_path):
        vocabulary = tmp_path / "words.txt"
        vocabulary.write_text("red\ngreen\nblue\n")

        def build() -> tuple[Any, Any]:
            words = V1.placeholder(tf.string, [None], name="words")
            table = tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(
                    str(vocabulary), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
                    tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
                ),
                -1,
            )  # fmt: skip
            return words, table.lookup(words)

        def save(made: Any) -> None:
            session, (words, ids) = made
            V1.saved_model.simple_save(
                session, str(tmp_path / "saved"), {"words": words}, {"ids": ids}, V1.tables_initializer()
            )

        train(build, tmp_path / "training", save)
        vocabulary.unlink()  # the model has its own
        return tmp_path / "saved"

    def test_table_from_a_file(self, lookup):
        session = InferenceSession(convert(lookup))
        (ids,) = session.run(None, {"words": np.array(["blue", "red", "no"], object)})
        assert ids.tolist() == [2, 0, -1]

    def test_damaged_collection(self, lookup, tmp_path):
        def change(meta_graph: Any) -> None:
            meta_graph.collection_def["saved_model_assets"].any_list.value[0].value = b"\xff\xff"

        with pytest.raises(ConversionError, match="assets cannot be read"):
            convert(rewritten(lookup, tmp_path, change))


def test_asset_outside_of_the_folder(saved, tmp_path):
    def change(meta_graph: Any) -> None:
        meta_graph.asset_file_def[0].filename = "../../words.txt"

    with pytest.raises(ConversionError, match="outside of its folder"):
        convert(rewritten(saved[0], tmp_path, change))


def test_variable_that_the_checkpoint_lacks(saved, tmp_path):
    def change(meta_graph: Any) -> None:
        meta_graph.ClearField("object_graph_def")
        meta_graph.ClearField("saver_def")
        for node in meta_graph.graph_def.node:
            if node.op == "VarHandleOp":
                node.attr["shared_name"].s = b"another"
            if node.attr["f"].func.name.startswith("__inference__traced_restore"):
                node.op = "NoOp"

    with pytest.raises(ConversionError, match="no value for the variable another"):
        convert(rewritten(saved[0], tmp_path, change))


def test_operator_that_nothing_converts_is_named_with_its_place(saved, tmp_path):
    def change(meta_graph: Any) -> None:
        for function in meta_graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "Sum":
                    node.op = "BesselI0e"

    with pytest.raises(ConversionError, match=r"Sum \(BesselI0e\): no converter for this operator"):
        convert(rewritten(saved[0], tmp_path, change))


class Counter(tf.Module):
    """A model that counts its calls, and one that reads the count after that."""

    def __init__(self) -> None:
        super().__init__()
        self.count = tf.Variable(0.0, name="count")
        self.weight = tf.Variable(3.0, name="weight")

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], name="x")])
    def times(self, x: Any) -> Any:
        self.add()
        return {"y": x * self.weight}

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], name="x")])
    def counted(self, x: Any) -> Any:
        self.add()
        return {"y": x + self.read()}

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], name="x")])
    def looped(self, x: Any) -> Any:
        def step(i: Any, total: Any) -> Any:
            self.add()
            return i + 1, total + self.count

        return {"y": tf.while_loop(lambda i, _: i < 3, step, (0, x))[1]}

    @tf.function(autograph=False)
    def add(self) -> Any:
        self.count.assign_add(1)

    @tf.function(autograph=False)
    def read(self) -> Any:
        return self.count + 0


def test_variables_that_a_model_changes(tmp_path):
    model = Counter()
    signatures = {"times": model.times, "counted": model.counted, "looped": model.looped}
    tf.saved_model.save(model, str(tmp_path), signatures)
    assert answers(convert(tmp_path, signature="times"), [np.float32([2])])[0].tolist() == [6]
    counted = StatefulSession(InferenceSession(convert(tmp_path, signature="counted")))
    assert [counted.run(None, {"x": np.float32([2])})[0].tolist() for _ in range(3)] == [[3], [4], [5]]
    with pytest.raises(ConversionError, match="a state that"):
        convert(tmp_path, signature="looped")


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_converted_or_refused(saved, tmp_path, seed):
    source = random.Random(seed)
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        for file in saved[0].rglob("*.*"):
            copy = folder / file.relative_to(saved[0])
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(file.read_bytes())
        if source.random() < 0.6:
            message = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
            mutate_message(message, source)
            (folder / "saved_model.pb").write_bytes(message.SerializePartialToString())
        else:
            chosen = source.choice(sorted(file for file in folder.rglob("*") if file.is_file()))
            chosen.write_bytes(mutated_bytes(chosen.read_bytes(), source))
        with suppress(ConversionError):
            convert(folder)
