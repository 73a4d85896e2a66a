"""`onnx-sparse convert` of TensorFlow's models."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from onnx_sparse.commands.sources.verification import failure
from onnx_sparse.converters.verification.comparison import Record, Verdict


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """A SavedModel with three signatures."""
    tf = pytest.importorskip("tensorflow")

    class Rows(tf.Module):
        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 2], tf.int64, "indices"),
                tf.TensorSpec([None], tf.float32, "values"),
                tf.TensorSpec([2], tf.int64, "dense_shape"),
            ]
        )
        def fill(self, indices, values, dense_shape):
            filled, _ = tf.sparse.fill_empty_rows(tf.SparseTensor(indices, values, dense_shape), 0.5)
            return {"filled": filled.values}

        @tf.function(
            input_signature=[tf.TensorSpec([None, 2], tf.float32, "data"), tf.TensorSpec([None], tf.int32, "ids")]
        )
        def highest(self, data, ids):
            return {"highest": tf.math.segment_max(data, ids)}

        @tf.function(input_signature=[tf.TensorSpec([4, 4], tf.float32, "matrix")])
        def unsupported(self, matrix):
            return {"roots": tf.linalg.eigh(matrix)[0]}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "x")])
        def picky(self, x):
            with tf.control_dependencies([tf.debugging.Assert(tf.reduce_any(x > 40), ["too small"])]):
                return {"y": x + 1}

        @tf.function(input_signature=fill.input_signature)
        def lookup(self, indices, values, dense_shape):
            ids = tf.SparseTensor(indices, tf.cast(values, tf.int64), dense_shape)
            return {"rows": tf.nn.safe_embedding_lookup_sparse(self.table, ids)}

        @tf.function(input_signature=fill.input_signature)
        def clipped(self, indices, values, dense_shape):
            return {"rows": tf.nn.embedding_lookup(self.table, tf.cast(values, tf.int64), max_norm=1.0)}

    folder = tmp_path_factory.mktemp("tf") / "saved"
    module = Rows()
    module.table = tf.Variable(np.ones((5, 2), np.float32))
    signatures = {"serving_default": module.fill, "highest": module.highest, "unsupported": module.unsupported}
    signatures["picky"] = module.picky
    signatures |= {"lookup": module.lookup, "clipped": module.clipped}
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return folder


class TestFromTensorflow:
    @pytest.mark.parametrize("form", [(), ("--portable",), ("--lower",)])
    def test_converts_and_verifies(self, cli, saved_model, tmp_path, form):
        out = tmp_path / "out.onnx"
        result = cli("convert", saved_model, "-o", out, "--verify", *form)
        assert result.code == 0
        row = next(line for line in result.out.splitlines() if line.startswith("filled"))
        assert row.split()[1] == "float32"
        assert row.split()[-1] == "ok"  # there is no worst batch, because none differs
        onnx.checker.check_model(out, full_check=True)

    def test_verifies_with_given_inputs(self, cli, saved_model, tmp_path):
        out = tmp_path / "out.onnx"
        feeds = ("--verify-with", "data=[[1, 5], [4, 2]]", "--verify-with", "ids=[0, 1]")
        result = cli("convert", saved_model, "-o", out, "--signature", "highest", *feeds)
        assert result.code == 0
        assert "[2, 2]" in result.out
        ran = cli("run", out, "-i", "data=[[1, 5], [4, 2]]", "-i", "ids=[0, 0]", "--json")
        assert ran.json["outputs"][0]["values"] == [[4, 5]]

    def test_json_holds_the_verification(self, cli, saved_model, tmp_path):
        document = cli("convert", saved_model, "-o", tmp_path / "out.onnx", "--verify", "--json").json
        (record,) = document["verification"]
        assert record["output"] == "filled"
        assert record["ok"] is True
        assert (record["verdict"], record["batches_with_rows"]) == ("ok", 3)
        assert document["from"] == "tensorflow"

    def test_a_summary_at_the_end(self, cli, saved_model, tmp_path):
        result = cli("convert", saved_model, "-o", tmp_path / "out.onnx", "--signature", "lookup")
        lines = {
            line.split()[0]: line.split(maxsplit=1)[1] for line in result.out.splitlines() if line.startswith("  ")
        }
        assert lines["nodes"].startswith("4 (from 29 in TensorFlow, ")
        assert lines["custom"] == "EmbeddingSegmentsMean"
        assert "direct-lookup, " in lines["rules"]
        assert "zero-row" in lines["rules"]
        assert lines["size"].endswith("KiB")

    @pytest.fixture
    def large(self, monkeypatch, tmp_path_factory):
        """A SavedModel with a small table that counts as large, because the limit is lowered."""
        tf = pytest.importorskip("tensorflow")
        from onnx_sparse.models.files import load_and_save

        monkeypatch.setattr(load_and_save, "_EXTERNAL", 1 << 20)
        module = tf.Module()
        module.table = tf.Variable(np.arange(1 << 19, dtype=np.float32).reshape(-1, 8))
        spec = tf.TensorSpec([None], tf.int64, "ids")
        module.rows = tf.function(lambda ids: {"rows": tf.gather(module.table, ids)}, input_signature=[spec])
        folder = tmp_path_factory.mktemp("large") / "saved"
        tf.saved_model.save(module, str(folder), signatures=module.rows)
        return folder

    def test_large_tables_go_to_a_file_of_their_own(self, cli, large, tmp_path):
        out = tmp_path / "out.onnx"
        result = cli("convert", large, "-o", out, "--verify")
        assert result.code == 0, result.err
        assert out.stat().st_size < 10_000
        assert (tmp_path / "out.onnx.data").stat().st_size == 1 << 21
        ran = cli("run", out, "-i", "ids=[3]", "--json")
        assert ran.json["outputs"][0]["values"] == [[24, 25, 26, 27, 28, 29, 30, 31]]

    def test_both_files_are_written_or_none(self, cli, large, tmp_path, monkeypatch):
        serialize = onnx.ModelProto.SerializeToString

        def full(self):
            written = {entry.value for tensor in self.graph.initializer for entry in tensor.external_data}
            if any(
                name.startswith("out.onnx.") for name in written
            ):  # the file of tables has been written, the model's is next
                raise OSError(28, "No space left on device")
            return serialize(self)

        monkeypatch.setattr(onnx.ModelProto, "SerializeToString", full, raising=False)
        out, data = tmp_path / "out.onnx", tmp_path / "out.onnx.data"
        assert cli("convert", large, "-o", out).error == f"cannot write {out}: No space left on device"
        assert list(tmp_path.iterdir()) == []
        for path in (out, data):
            path.write_text("of before")
        assert cli("convert", large, "-o", out).code == 1
        assert sorted(tmp_path.iterdir()) == [out, data]
        assert {path.read_text() for path in (out, data)} == {"of before"}

    def test_explains_the_rules(self, cli, saved_model, tmp_path):
        arguments = ("convert", saved_model, "-o", tmp_path / "out.onnx", "--signature", "clipped", "--explain")
        result = cli(*arguments)
        assert result.code == 0
        assert "not applied at" in result.out
        declined = cli(*arguments, "--json").json["rules"]["declined"]
        assert [entry["rule"] for entry in declined] == ["clipped-rows"]

    def test_fuses_only_onnx_files(self, cli, saved_model, tmp_path):
        result = cli("convert", saved_model, "-o", tmp_path / "out.onnx", "--fuse")
        assert result.code == 2
        assert result.error == "--fuse is for ONNX files, and this source is tensorflow"

    def test_explains_only_what_is_rewritten(self, cli, tmp_path):
        (tmp_path / "m.onnx").write_bytes(b"")
        result = cli("convert", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--explain")
        assert result.code == 2

    def test_answers_that_differ_are_not_written(self, cli, saved_model, tmp_path, monkeypatch):
        def break_it(model):
            for tensor in model.graph.initializer:  # among them the value of empty rows
                if tensor.data_type == TensorProto.FLOAT:
                    tensor.CopyFrom(onnx.numpy_helper.from_array(np.float32(7), tensor.name))
            return model

        monkeypatch.setattr("onnx_sparse.models.forms.function_bodies.embed_functions", break_it)
        out = tmp_path / "out.onnx"
        result = cli("convert", saved_model, "-o", out, "--verify", "--portable")
        assert result.code == 1
        assert "DIFFERS" in result.out
        assert result.error.startswith("verification fails, no model is written: filled: values differ")
        assert not out.exists()

    def test_inputs_that_tensorflow_refuses_are_an_outcome_of_their_own(self, cli, saved_model, tmp_path):
        arguments = ("convert", saved_model, "-o", tmp_path / "out.onnx", "--signature", "picky", "--verify")
        result = cli(*arguments)
        assert result.code == 1
        assert " REFUSED " in result.out
        assert result.error.startswith(
            "all generated inputs are refused, so nothing was compared and no model is written; "
            "give inputs of your own with --verify-with (--write-inputs makes some): "
            "TensorFlow refuses the batches 'ordinary', "
        )
        document = cli(*arguments, "--json").json
        (record,) = document["verification"]
        assert (record["ok"], record["verdict"], record["batches_with_rows"]) == (False, "refused", 0)
        assert document["output"] is None
        assert not (tmp_path / "out.onnx").exists()
        assert cli(*arguments, "--verify-with", "x=[41, 1]").code == 0
        refused = cli(*arguments, "--verify-with", "x=[1]").error
        assert refused.startswith("the given inputs are refused, so nothing was compared and no model is written: ")

    def test_inputs_without_rows_prove_nothing(self, cli, saved_model, tmp_path):
        np.save(tmp_path / "data.npy", np.zeros((0, 2), np.float32))
        feeds = ("--verify-with", f"data={tmp_path / 'data.npy'}", "--verify-with", "ids=[]")
        result = cli("convert", saved_model, "-o", tmp_path / "out.onnx", "--signature", "highest", *feeds, "--json")
        assert result.code == 1
        assert result.error.startswith("nothing was compared, and no model is written: highest: the output is empty")
        assert result.json["verification"][0]["verdict"] == "not compared"
        assert not (tmp_path / "out.onnx").exists()

    def test_random_values_are_not_called_equal(self):
        records = [
            Record("plain", "float32", (2,), batches=5),
            Record("noise", "float32", (2,), verdict=Verdict.RANDOM, note="random values"),
        ]
        assert failure(records[:1], given=False) is None
        message = "no model is written; convert without verification: noise: random values"
        assert failure(records, given=False) == message

    def test_modules_that_define_layers(self, cli, tmp_path, monkeypatch):
        """A layer is registered by its name, or not."""
        pytest.importorskip("keras")
        names = {"layers_registered": "@keras.saving.register_keras_serializable()", "layers_plain": ""}
        program = "import keras, layers_registered, layers_plain\n"
        for name, decorator in names.items():
            (tmp_path / f"{name}.py").write_text(
                f"import keras\n{decorator}\nclass Doubled(keras.layers.Layer):\n    def call(self, x): return x * 2\n"
            )
            layers = f"keras.Input((3,), name='x'), {name}.Doubled()"
            program += f"keras.Sequential([{layers}]).save('{name}.keras')\n"
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True)
        monkeypatch.chdir(tmp_path)
        out = tmp_path / "out.onnx"
        for name in names:
            assert "--import" in cli("convert", f"{name}.keras", "-o", out).error
            assert cli("convert", f"{name}.keras", "-o", out, "--import", name, "--verify").code == 0
            assert sys.path[0] != str(tmp_path)

    def test_a_module_that_cannot_be_imported(self, cli, saved_model, tmp_path):
        for name, reason in (("no_such_layers", "ModuleNotFoundError: No module"), ("numpy.nothing", "ModuleNotFound")):
            result = cli("convert", saved_model, "-o", tmp_path / "out.onnx", "--import", name)
            assert result.code == 1
            assert result.error.startswith(f"--import {name}: {reason}")

    def test_only_tensorflow_imports_modules(self, cli, segment_max, tmp_path):
        result = cli("convert", segment_max, "-o", tmp_path / "out.onnx", "--import", "json")
        assert (result.code, result.error) == (2, "--import is for TensorFlow's models, and this source is onnx")

    def test_every_unsupported_node_is_listed(self, cli, saved_model, tmp_path):
        arguments = ("convert", saved_model, "-o", tmp_path / "out.onnx", "--signature", "unsupported")
        result = cli(*arguments)
        assert result.code == 1
        first, *others = result.err.splitlines()
        assert first.startswith("onnx-sparse: error: 1 node cannot be converted")
        assert "SelfAdjointEigV2" in "".join(others)
        unsupported = cli(*arguments, "--json").json["unsupported"]
        assert unsupported[0]["op_type"] == "SelfAdjointEigV2"

    def test_a_signature_that_is_not_there(self, cli, saved_model, tmp_path):
        result = cli("convert", saved_model, "-o", tmp_path / "out.onnx", "--signature", "other")
        assert result.code == 1
        assert "has no signature 'other'" in result.error

    @pytest.fixture(scope="class")
    def of_tensorflow_1(self, tmp_path_factory):
        """A SavedModel with two graphs, of which one has an input of unknown rank, and a checkpoint."""
        tf = pytest.importorskip("tensorflow").compat.v1
        folder = tmp_path_factory.mktemp("tf1")
        with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
            x = tf.placeholder(tf.float32, name="x")
            y = tf.add(x, tf.get_variable("b", initializer=2.0), name="y")
            session.run(tf.global_variables_initializer())
            info = tf.saved_model.build_tensor_info
            signature = tf.saved_model.build_signature_def({"x": info(x)}, {"y": info(y)}, "predict")
            builder = tf.saved_model.builder.SavedModelBuilder(str(folder / "saved"))
            builder.add_meta_graph_and_variables(session, ["train"], {"one": signature, "two": signature})
            builder.add_meta_graph(["serve"], {"serving_default": signature})
            builder.save()
            tf.train.Saver().save(session, str(folder / "model.ckpt"))
        return folder

    def test_one_of_several_graphs_by_its_tag(self, cli, of_tensorflow_1, tmp_path):
        source, out = of_tensorflow_1 / "saved", tmp_path / "out.onnx"
        shaped = ("--inputs", "x[-1,2]")
        assert cli("convert", source, "-o", out, *shaped, "--verify").code == 0
        assert cli("convert", source, "-o", out, *shaped, "--verify", "--tag", "train", "--signature", "two").code == 0
        error = cli("convert", source, "-o", out, *shaped, "--tag", "tpu").error
        assert error == f"{source} has no graph with the tag 'tpu'; the tags are: train; serve"

    def test_an_input_of_unknown_rank(self, cli, of_tensorflow_1, tmp_path):
        out = tmp_path / "out.onnx"
        error = cli("convert", of_tensorflow_1 / "saved", "-o", out).error
        assert error == "input x has no known rank; say its shape with its name, such as x[-1,3]"
        assert cli("convert", of_tensorflow_1 / "saved", "-o", out, "--inputs", "x:0[-1,1,3]").code == 0
        (given,) = onnx.load(out).graph.input
        assert [d.dim_value for d in given.type.tensor_type.shape.dim] == [0, 1, 3]

    def test_a_checkpoint(self, cli, of_tensorflow_1, tmp_path):
        out = tmp_path / "out.onnx"
        tensors = ("--inputs", "x:0[-1],", "--outputs", "y:0")
        assert cli("convert", of_tensorflow_1 / "model.ckpt.meta", "-o", out, *tensors).code == 2
        tensors = ("--inputs", "x:0[-1]", "--outputs", "y:0")
        assert cli("convert", of_tensorflow_1 / "model.ckpt.meta", "-o", out, *tensors, "--verify").code == 0
        prefix = of_tensorflow_1 / "model.ckpt"
        assert (
            cli("convert", prefix, "-o", out).error
            == f"{prefix} is a checkpoint; give {prefix}.meta, which has its graph"
        )

    def test_a_file_of_tensorflow_lite(self, cli, tmp_path):
        (tmp_path / "m.tflite").write_bytes(b"TFL3")
        error = cli("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx").error
        assert "is a model of TensorFlow Lite, which is not read; convert the SavedModel" in error

    @pytest.mark.parametrize("opset", [18, 21, 23])
    def test_an_opset(self, cli, saved_model, tmp_path, opset):
        out = tmp_path / "out.onnx"
        document = cli("convert", saved_model, "-o", out, "--opset", opset, "--verify", "--json").json
        assert document["opsets"] == {"ai.onnx": opset, "onnx_sparse": 1}

    def test_a_truncated_graph(self, cli, tmp_path):
        pytest.importorskip("tensorflow")
        (tmp_path / "m.pb").write_bytes(b"\x0a\xff\x01" + b"x" * 20)
        result = cli("convert", tmp_path / "m.pb", "-o", tmp_path / "out.onnx", "--outputs", "y:0")
        assert result.code == 1
        assert "m.pb" in result.error
        assert not (tmp_path / "out.onnx").exists()

    def test_a_truncated_saved_model(self, cli, saved_model, tmp_path):
        (tmp_path / "cut").mkdir()
        content = (saved_model / "saved_model.pb").read_bytes()
        (tmp_path / "cut" / "saved_model.pb").write_bytes(content[: len(content) // 2])
        result = cli("convert", tmp_path / "cut", "-o", tmp_path / "out.onnx")
        assert result.code == 1
        assert "saved_model.pb holds no SavedModel: it is damaged, cut short" in result.error

    @pytest.mark.slow
    def test_stderr_is_quiet(self, saved_model, tmp_path):
        """TensorFlow greets with many lines when it is loaded."""
        done = subprocess.run(
            [sys.executable, "-m", "onnx_sparse", "convert", saved_model, "-o", tmp_path / "out.onnx"],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0
        assert done.stderr == ""
