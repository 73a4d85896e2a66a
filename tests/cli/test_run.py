"""`onnx-sparse run`."""

from __future__ import annotations

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

DATA = np.array([[1, 5], [4, 2], [3, 3]], np.float32)
IDS = np.array([0, 0, 2], np.int64)
HIGHEST = [[4, 5], [0, 0], [3, 3]]


@pytest.fixture
def feeds(tmp_path):
    """An archive with both inputs of `segment_max`."""
    path = tmp_path / "in.npz"
    np.savez(path, data=DATA, segment_ids=IDS)
    return path


@pytest.fixture
def identity(make_model, save):
    """A model that returns its only input."""

    def make(dtype, shape=("N",)):
        value = (dtype, list(shape))
        return save(make_model([helper.make_node("Identity", ["x"], ["y"])], {"x": value}, {"y": value}))

    return make


class TestInputs:
    def test_an_archive(self, cli, segment_max, feeds):
        (output,) = cli("run", segment_max, "--input", feeds, "--json").json["outputs"]
        assert output == {"name": "highest", "type": "float32", "shape": [3, 2], "values": HIGHEST}

    def test_arrays_one_by_one(self, cli, segment_max, tmp_path):
        np.save(tmp_path / "data.npy", DATA)
        np.save(tmp_path / "ids.npy", IDS)
        inputs = ["--input", f"data={tmp_path}/data.npy", "-i", f"segment_ids={tmp_path}/ids.npy"]
        assert cli("run", segment_max, *inputs, "--json").json["outputs"][0]["values"] == HIGHEST

    def test_json_takes_the_type_of_the_model(self, cli, segment_max):
        inputs = ["--input", "data=[[1, 5], [4, 2], [3, 3.0]]", "--input", "segment_ids=[0, 0, 2]"]
        assert cli("run", segment_max, *inputs, "--json").json["outputs"][0]["values"] == HIGHEST

    def test_a_table_for_people(self, cli, segment_max, feeds):
        result = cli("run", segment_max, "--input", feeds)
        assert result.code == 0
        assert "[[4, 5], [0, 0], [3, 3]]" in result.out
        assert "float32" in result.out
        assert "ms with the" in result.out

    def test_fortran_order_and_foreign_byte_order(self, cli, segment_max, tmp_path):
        np.savez(tmp_path / "in.npz", data=np.asfortranarray(DATA.astype(">f4")), segment_ids=IDS.astype(">i8"))
        result = cli("run", segment_max, "--input", tmp_path / "in.npz", "--json")
        assert result.json["outputs"][0]["values"] == HIGHEST

    @pytest.mark.parametrize(
        "texts", [np.array(["ä", "b c", ""]), np.array(["ä".encode(), b"b c", b""])], ids=["U", "S"]
    )
    def test_texts(self, cli, identity, tmp_path, texts):
        np.savez(tmp_path / "in.npz", x=texts)
        output = cli("run", identity(TensorProto.STRING), "--input", tmp_path / "in.npz", "--json").json["outputs"][0]
        assert output["values"] == ["ä", "b c", ""]
        assert output["type"] == "string"

    @pytest.mark.parametrize(
        ("dtype", "given", "expected"),
        [
            (TensorProto.STRING, '["a", ""]', ["a", ""]),
            (TensorProto.BOOL, "[true, false]", [True, False]),
            (TensorProto.UINT64, "[18446744073709551615]", [2**64 - 1]),
            (TensorProto.FLOAT16, "[0.1]", [float(np.float16(0.1))]),
            (TensorProto.BFLOAT16, "[0.1]", [float(ml_dtypes.bfloat16(0.1))]),
            (TensorProto.DOUBLE, "[NaN, -Infinity]", ["NaN", "-Infinity"]),
            (TensorProto.INT64, "[]", []),
        ],
    )
    def test_json_of_every_kind(self, cli, identity, dtype, given, expected):
        result = cli("run", identity(dtype), "--input", f"x={given}", "--json")
        assert result.json["outputs"][0]["values"] == expected

    def test_a_scalar(self, cli, identity):
        result = cli("run", identity(TensorProto.INT8, ()), "--input", "x=-5", "--json")
        assert result.json["outputs"][0] == {"name": "y", "type": "int8", "shape": [], "values": -5}

    @pytest.mark.parametrize("stored", ["as numpy writes it", "float32"])
    def test_bfloat16(self, cli, identity, tmp_path, stored):
        values = np.array([1.5, 0.1], np.float32)
        np.savez(tmp_path / "in.npz", x=values if stored == "float32" else values.astype(ml_dtypes.bfloat16))
        out = tmp_path / "out.npz"
        result = cli("run", identity(TensorProto.BFLOAT16), "--input", tmp_path / "in.npz", "-o", out)
        assert "bfloat16" in result.out
        saved = np.load(out)["y"]
        assert saved.dtype == np.float32
        assert saved.tolist() == values.astype(ml_dtypes.bfloat16).tolist()

    def test_an_input_with_a_default_may_be_omitted(self, cli, save, make_model):
        value = (TensorProto.FLOAT, [1])
        model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": value, "w": value}, {"y": value})
        model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0]))
        path = save(model)
        assert cli("run", path, "--input", "x=[1]", "--json").json["outputs"][0]["values"] == [3]
        assert cli("run", path, "-i", "x=[1]", "-i", "w=[5]", "--json").json["outputs"][0]["values"] == [6]


class TestOutputs:
    def test_are_saved(self, cli, segment_max, feeds, tmp_path):
        out = tmp_path / "out.npz"
        assert cli("run", segment_max, "--input", feeds, "-o", out).code == 0
        assert np.load(out)["highest"].tolist() == HIGHEST

    def test_texts_are_saved_without_a_pickle(self, cli, identity, tmp_path):
        out = tmp_path / "out.npz"
        assert cli("run", identity(TensorProto.STRING), "--input", 'x=["ab", "c"]', "-o", out).code == 0
        assert np.load(out, allow_pickle=False)["y"].tolist() == ["ab", "c"]

    def test_an_output_named_file(self, cli, save, make_model, tmp_path):
        value = (TensorProto.FLOAT, [1])
        path = save(make_model([helper.make_node("Neg", ["x"], ["file"])], {"x": value}, {"file": value}))
        assert cli("run", path, "--input", "x=[1]", "-o", tmp_path / "out.npz").code == 0
        assert np.load(tmp_path / "out.npz")["file"].tolist() == [-1]

    def test_large_ones_are_not_in_the_json(self, cli, identity, tmp_path):
        np.savez(tmp_path / "in.npz", x=np.zeros(10_001, np.int8))
        result = cli("run", identity(TensorProto.INT8), "--input", tmp_path / "in.npz", "--json")
        assert result.json["outputs"][0]["values"] is None


class TestWrongInput:
    """One line says what is wrong and what the model expects; exit code 1, or 2 for arguments that make no sense."""

    EXPECTED = "its inputs are data: float32[K, 2], segment_ids: int64[K]"

    @pytest.fixture
    def refused(self, cli, segment_max, tmp_path):
        def refuse(code, *inputs, **arrays):
            if arrays:
                np.savez(tmp_path / "in.npz", **{"data": DATA, "segment_ids": IDS, **arrays})
                inputs = (tmp_path / "in.npz",)
            given = [part for value in inputs for part in ("--input", value)]
            result = cli("run", segment_max, *given, "-o", tmp_path / "out.npz")
            assert result.code == code
            assert not (tmp_path / "out.npz").exists()
            return result.error

        return refuse

    def test_nothing(self, refused):
        assert refused(1) == f"inputs data, segment_ids not given; {self.EXPECTED}"

    def test_one_missing(self, refused):
        assert refused(1, "data=[[1, 2]]") == f"input segment_ids not given; {self.EXPECTED}"

    def test_a_wrong_name(self, refused):
        assert refused(1, ids=IDS) == f"the model has no input ids; {self.EXPECTED}"

    def test_a_wrong_dtype(self, refused):
        error = refused(1, segment_ids=IDS.astype(np.int32))
        assert error == "input segment_ids is int32; the model expects int64 (array.astype(np.int64))"

    def test_a_wrong_rank(self, refused):
        error = refused(1, segment_ids=IDS[None])
        assert error == "input segment_ids has shape [1, 3]; the model expects int64[K]"

    def test_a_wrong_dimension(self, refused):
        assert refused(1, data=DATA[:, :1]) == "input data has shape [3, 1]; the model expects float32[K, 2]"

    def test_objects(self, refused):
        assert "a pickle can run any code" in refused(1, data=np.array([{}, []], object))

    def test_a_json_number_of_the_wrong_kind(self, refused):
        error = refused(1, "segment_ids=[0, 1.5]")
        assert error == "input segment_ids, row 1: 1.5 does not fit into int64"

    def test_a_json_number_out_of_range(self, refused):
        assert refused(1, "segment_ids=[9223372036854775808]").endswith(": 9223372036854775808 does not fit into int64")

    def test_json_rows_of_unequal_length(self, refused):
        assert refused(1, "data=[[1, 2], [3]]") == "input data, row 1 has 1 values; the first has 2"

    def test_json_that_is_an_object(self, refused):
        assert "expected a list or an array" in refused(1, 'data={"a": 1}')

    def test_neither_file_nor_json(self, refused):
        assert "is neither a file nor JSON" in refused(2, "data=hello")
        assert "is neither a file nor JSON" in refused(2, "data=")

    def test_no_name(self, refused):
        assert refused(2, "[1, 2]") == "--input [1, 2]: expected FILE.npz, FILE.json, NAME=FILE or NAME=JSON"

    def test_twice(self, refused):
        assert refused(2, "segment_ids=[0]", "segment_ids=[0]") == "input segment_ids is given twice"

    def test_a_missing_file(self, refused, tmp_path):
        assert refused(1, tmp_path / "none.npz").endswith("none.npz: no such file")
        assert refused(1, f"data={tmp_path}/none.npy").endswith("none.npy: no such file")

    def test_a_directory(self, refused, tmp_path):
        (tmp_path / "dir.npz").mkdir()
        assert refused(1, tmp_path / "dir.npz").endswith("dir.npz is a directory, not a numpy file")

    def test_a_damaged_archive(self, refused, tmp_path, feeds):
        for size in (0, 1, 10, 100, feeds.stat().st_size - 30):
            (tmp_path / "cut.npz").write_bytes(feeds.read_bytes()[:size])
            assert "cut.npz" in refused(1, tmp_path / "cut.npz")

    def test_a_damaged_compressed_archive(self, refused, tmp_path):
        path = tmp_path / "bad.npz"
        np.savez_compressed(path, data=np.arange(64, dtype=np.float32))
        content = bytearray(path.read_bytes())
        content[150:160] = b"\xff" * 10
        path.write_bytes(content)
        assert "bad.npz, array data, cannot be read" in refused(1, path)

    def test_a_header_that_claims_too_much(self, refused, tmp_path):
        with (tmp_path / "huge.npy").open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (10**13,)}
            np.lib.format.write_array_header_1_0(file, header)
        assert "huge.npy cannot be read: Unable to allocate" in refused(1, f"data={tmp_path}/huge.npy")

    def test_a_file_that_is_not_an_archive(self, refused, tmp_path):
        np.save(tmp_path / "single.npy", DATA)
        (tmp_path / "single.npy").rename(tmp_path / "single.npz")
        assert "is a single array, not an .npz archive" in refused(1, tmp_path / "single.npz")

    def test_float32_for_float16(self, cli, identity, tmp_path):
        np.savez(tmp_path / "in.npz", x=np.zeros(2, np.float32))
        result = cli("run", identity(TensorProto.FLOAT16), "--input", tmp_path / "in.npz")
        assert result.error == "input x is float32; the model expects float16 (array.astype(np.float16))"

    def test_float64_for_bfloat16(self, cli, identity, tmp_path):
        np.savez(tmp_path / "in.npz", x=np.zeros(2))
        result = cli("run", identity(TensorProto.BFLOAT16), "--input", tmp_path / "in.npz")
        assert result.error == "input x is float64; the model expects bfloat16 (give float32, it is rounded)"

    def test_numbers_for_texts(self, cli, identity):
        result = cli("run", identity(TensorProto.STRING), "--input", "x=[1]")
        assert result.error == "input x, row 0: expected a string, got 1"


class TestWrongModel:
    def test_an_operator_that_does_not_exist(self, cli, save, domain_node, make_model):
        value = (TensorProto.FLOAT, [1])
        path = save(make_model([domain_node("Sparkle", ["x"], ["y"])], {"x": value}, {"y": value}))
        result = cli("run", path, "--input", "x=[1]")
        assert result.code == 1
        assert "node -> y: domain onnx_sparse has no operator Sparkle" in result.error

    @pytest.mark.parametrize("backend", ["native", "python"])
    def test_an_opset_of_the_domain_that_does_not_exist_yet(self, cli, segment_max, feeds, backend):
        """Its operators may behave differently, and kernels do not see which opset a model imports."""
        model = onnx.load(segment_max)
        model.opset_import[1].version = 2
        onnx.save(model, segment_max)
        result = cli("run", segment_max, "--input", feeds, "--backend", backend)
        assert result.error == f"{segment_max}: opset 2 of domain onnx_sparse; this version of onnx_sparse has 1"

    def test_an_ir_version_beyond_onnx_runtime(self, cli, segment_max, feeds):
        """ONNX Runtime's message starts with a location in its source, which is left out here."""
        model = onnx.load(segment_max)
        model.ir_version = 99
        onnx.save(model, segment_max)
        error = cli("run", segment_max, "--input", feeds, "--backend", "python").error
        assert error.startswith(f"{segment_max} does not load: Unsupported model IR version: 99, max supported")

    def test_an_output_whose_name_is_not_utf8(self, cli, segment_max, feeds):
        segment_max.write_bytes(segment_max.read_bytes().replace(b"highest", b"high\xff\xfet"))
        assert (
            "is damaged: a name in an input, output or value is not UTF-8"
            in cli("run", segment_max, "--input", feeds).error
        )

    def test_truncated(self, cli, segment_max, feeds):
        segment_max.write_bytes(segment_max.read_bytes()[:-9])
        assert "is not an ONNX model, or truncated" in cli("run", segment_max, "--input", feeds).error

    def test_illegal_input(self, cli, segment_max, tmp_path):
        result = cli(
            "run", segment_max, "-i", "data=[[1, 2], [3, 4]]", "-i", "segment_ids=[1, 0]", "--backend", "python"
        )
        assert result.code == 1
        assert "SegmentMax: segment_ids[1] = 0 is less than segment_ids[0] = 1" in result.error

    def test_a_backend_that_is_not_installed(self, cli, segment_max, feeds):
        from onnx_sparse.commands.description.runnable_backends import native_library

        result = cli("run", segment_max, "--input", feeds, "--backend", "native")
        if native_library() is None:
            assert result.code == 1
            assert "native" in result.error
        else:
            assert result.code == 0


class TestOutputPath:
    """A path that cannot be written is refused before the model runs."""

    def test_what_the_command_reads_is_not_overwritten(self, cli, segment_max, feeds, tmp_path):
        np.save(tmp_path / "data.npy", DATA)
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        for path in before:
            given = ("--input", feeds) if path != tmp_path / "data.npy" else ("--input", f"data={path}")
            result = cli("run", segment_max, *given, "-o", path)
            assert result.code == 2
            assert result.error == f"cannot write {path}: it is what this command reads"
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_no_such_directory(self, cli, segment_max, feeds, tmp_path):
        result = cli("run", segment_max, "--input", feeds, "-o", tmp_path / "no" / "out.npz")
        assert result.code == 1
        assert result.error == f"cannot write {tmp_path}/no/out.npz: there is no directory {tmp_path}/no"

    def test_a_directory(self, cli, segment_max, feeds, tmp_path):
        assert cli("run", segment_max, "--input", feeds, "-o", tmp_path).error.endswith("it is a directory")

    @pytest.mark.skipif(os.name != "posix", reason="no /dev/null")
    def test_a_device(self, cli, segment_max, feeds):
        result = cli("run", segment_max, "--input", feeds, "-o", "/dev/null")
        assert result.error == "cannot write /dev/null: it is not a regular file"

    def test_no_permission(self, cli, segment_max, feeds, tmp_path, monkeypatch):
        monkeypatch.setattr("os.access", lambda *_: False)  # the tests may run as root, which may write anywhere
        assert "no permission" in cli("run", segment_max, "--input", feeds, "-o", tmp_path / "out.npz").error


def test_a_model_with_external_data(cli, make_model, tmp_path):
    value = (TensorProto.FLOAT, [2])
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": value}, {"y": value})
    model.graph.initializer.append(
        helper.make_tensor("w", TensorProto.FLOAT, [2], np.array([1, 2], np.float32).tobytes(), raw=True)
    )
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    assert cli("run", tmp_path / "m.onnx", "--input", "x=[1, 1]", "--json").json["outputs"][0]["values"] == [2, 3]
    assert cli("inspect", tmp_path / "m.onnx", "--json").json["size"] > (tmp_path / "m.onnx").stat().st_size


def test_a_function_that_alone_imports_our_domain(cli, save, make_model, domain_node, tmp_path):
    node = domain_node("SegmentSum", ["x", "ids"], ["y"])
    total = helper.make_function("mine", "Total", ["x", "ids"], ["y"], [node], [helper.make_opsetid("onnx_sparse", 1)])
    call = helper.make_node("Total", ["x", "ids"], ["y"], domain="mine")
    value = (TensorProto.FLOAT, ["N"])
    model = make_model([call], {"x": value, "ids": (TensorProto.INT64, ["N"])}, {"y": value}, functions=[total])
    model.opset_import[1].domain = "mine"
    given = ("--input", "x=[1, 2, 3]", "--input", "ids=[0, 0, 2]", "--json")
    assert cli("run", save(model), *given).json["outputs"][0]["values"] == [3, 0, 3]
    assert cli("convert", save(model), "-o", tmp_path / "out.onnx").code == 0
    assert cli("check", save(model)).code == 0


def test_a_model_as_text(cli, segment_max, tmp_path, feeds):
    onnx.save(onnx.load(segment_max), tmp_path / "m.onnxtxt")
    result = cli("run", tmp_path / "m.onnxtxt", "--input", feeds, "--json")
    assert result.json["outputs"][0]["values"] == HIGHEST


@pytest.mark.skipif(sys.platform != "linux", reason="file names are texts there")
@pytest.mark.parametrize("name", ["a b.onnx", "ü💧.onnx", "a=b.onnx", os.fsdecode(b"\xff.onnx")], ids=ascii)
@pytest.mark.parametrize("command", ["run", "check", "inspect"])
def test_names_of_files(cli, segment_max, feeds, tmp_path, command, name):
    path = segment_max.rename(tmp_path / name)
    given = ("--input", feeds) if command == "run" else ()
    assert cli(command, path, *given).code == 0
    assert cli(command, path, *given, "--json").json["model"]


def test_no_telemetry_of_onnx_runtime(segment_max, tmp_path):
    """1.32 would write a device id and a database of events into the home folder."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    inputs = ["-i", "data=[[1, 2]]", "-i", "segment_ids=[0]"]
    command = [sys.executable, "-m", "onnx_sparse", "run", str(segment_max), *inputs]
    done = subprocess.run(command, env={**environment, "HOME": str(home)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(home.rglob("*"))


class TestStates:
    @pytest.fixture
    def summing(self, make_model, save):
        from onnx_sparse.schemas.states import State, write_states

        nodes = [helper.make_node("Add", ["x", "past.s"], ["present.s"]), helper.make_node("Neg", ["present.s"], ["y"])]
        value = (TensorProto.FLOAT, [2])
        model = make_model(nodes, {"x": value, "past.s": value}, {"y": value, "present.s": value})
        write_states(model, [State("s", "past.s", "present.s", (2,), 1.0)])
        return save(model)

    def test_one_step_begins_with_the_recorded_value(self, cli, summing):
        outputs = cli("run", summing, "-i", "x=[1, 2]", "--json").json["outputs"]
        assert {o["name"]: o["values"] for o in outputs} == {"y": [-2, -3], "present.s": [2, 3]}

    def test_a_state_that_is_given(self, cli, summing):
        outputs = cli("run", summing, "-i", "x=[1, 2]", "-i", "past.s=[0, 0]", "--json").json["outputs"]
        assert outputs[0]["values"] == [-1, -2]

    def test_several_steps(self, cli, summing, tmp_path):
        np.savez(tmp_path / "next.npz", x=np.float32([10, 10]))
        steps = ["-i", "x=[1, 2]", "--then", tmp_path / "next.npz", "--then", "x=[0, 0]"]
        assert cli("run", summing, *steps, "-o", tmp_path / "out.npz").code == 0
        with np.load(tmp_path / "out.npz") as saved:
            found = {name: saved[name].tolist() for name in saved}
        assert found == {"y.1": [-2, -3], "y.2": [-12, -13], "y.3": [-12, -13], "present.s": [12, 13]}

    def test_a_step_of_a_model_without_states(self, cli, segment_max, feeds):
        result = cli("run", segment_max, "-i", feeds, "--then", feeds)
        assert result.code == 2
        assert "records no states" in result.err

    def test_a_record_that_is_not_valid(self, cli, make_model, save):
        value = (TensorProto.FLOAT, [2])
        model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": value}, {"y": value})
        model.metadata_props.add(key="onnx_sparse.states", value="{")
        result = cli("run", save(model), "-i", "x=[1, 2]")
        assert (result.code, result.err.count("\n")) == (1, 1)
        assert "onnx_sparse.states are not JSON" in result.err
