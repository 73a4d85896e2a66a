"""External data are taken from the model's folder: by every command and by sessions, in every form of a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper

import onnx_sparse
from onnx_sparse.runtime import available_backends

RIGHT, WRONG = np.array([1, 2], np.float32), np.array([100, 200], np.float32)
FORMS = (".onnx", ".onnxjson", ".onnxtxt", ".onnxtext", ".textproto", ".prototxt", ".pbtxt", "")
BACKENDS = pytest.mark.parametrize("backend", available_backends())
#: Places outside the model's folder that a location may name; those with links are made by `linked`.
OUTSIDE = ("../secret", "{absolute}", "sub/../../secret", "./../secret", "link", "linked_folder/secret")


@pytest.fixture
def model(make_model, domain_node, tmp_path, monkeypatch) -> ModelProto:
    """x + w, with w in a file; the current directory has a file of the same name with other values."""
    nodes = [domain_node("SegmentSum", ["x", "ids"], ["s"]), helper.make_node("Add", ["s", "w"], ["y"])]
    value = (TensorProto.FLOAT, [2])
    made = make_model(nodes, {"x": value, "ids": (TensorProto.INT64, [2])}, {"y": value})
    tensor = made.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2])
    locate(tensor, "w.bin")
    (tmp_path / "models").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "models" / "w.bin").write_bytes(RIGHT.tobytes())
    (tmp_path / "elsewhere" / "w.bin").write_bytes(WRONG.tobytes())
    monkeypatch.chdir(tmp_path / "elsewhere")
    return made


def locate(tensor: TensorProto, location: str) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, entry in (("location", location), ("offset", "0"), ("length", "8")):
        tensor.external_data.add(key=key, value=entry)


@pytest.fixture
def written(model, tmp_path) -> Callable[[str], Path]:
    def write(form: str) -> Path:
        path = tmp_path / "models" / f"m{form}"
        onnx.save(model, path)
        return path

    return write


FEEDS = {"x": np.array([1, 1], np.float32), "ids": np.array([0, 1])}
ARGUMENTS = ("-i", "x=[1, 1]", "-i", "ids=[0, 1]")


@pytest.mark.filterwarnings("ignore:The onnxtxt format")
@pytest.mark.parametrize("form", FORMS)
class TestForms:
    @BACKENDS
    def test_run(self, cli, written, form, backend):
        path = written(form)
        for given in (path, os.path.relpath(path)):
            result = cli("run", given, *ARGUMENTS, "--backend", backend, "--json")
            assert result.json["outputs"][0]["values"] == [2, 3]

    @BACKENDS
    def test_a_session(self, written, form, backend, capfd):
        path = written(form)
        for given in (path, str(path), os.path.relpath(path)):
            session = onnx_sparse.InferenceSession(given, backend=backend)
            assert session.run(None, FEEDS)[0].tolist() == [2, 3]
        assert not capfd.readouterr().err

    def test_convert(self, cli, written, form, tmp_path):
        assert cli("convert", written(form), "--from", "onnx", "-o", tmp_path / "out.onnx").code == 0
        assert onnx_sparse.InferenceSession(tmp_path / "out.onnx").run(None, FEEDS)[0].tolist() == [2, 3]

    def test_check_and_inspect(self, cli, written, form, tmp_path):
        path = written(form)
        assert [f for f in cli("check", path, "--json").json["findings"] if f["level"] == "error"] == []
        assert cli("inspect", path, "--json").json["size"] == path.stat().st_size + 8
        (tmp_path / "models" / "w.bin").unlink()
        assert cli("check", path).code == 1
        assert cli("run", path, *ARGUMENTS).code == 1

    @pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
    @pytest.mark.parametrize("location", OUTSIDE)
    def test_data_outside_the_folder_are_refused(self, cli, model, written, form, location, tmp_path):
        secret = tmp_path / "secret"
        secret.write_bytes(WRONG.tobytes())
        (tmp_path / "models" / "link").symlink_to(secret)
        (tmp_path / "models" / "linked_folder").symlink_to(tmp_path)
        locate(model.graph.initializer[0], location.format(absolute=secret))
        path = written(form)
        for backend in available_backends():
            assert cli("run", path, *ARGUMENTS, "--backend", backend).code == 1
        assert cli("check", path).code == 1
        assert cli("convert", path, "--from", "onnx", "-o", tmp_path / "out.onnx").code == 1
        assert cli("inspect", path, "--json").json["size"] == path.stat().st_size


@pytest.mark.parametrize("location", ["a\0b", "", ".", "..", "x" * 300, "a\nb", "/dev/zero", "\u202e"])
@pytest.mark.parametrize("form", [".onnx", ".onnxjson"])
def test_odd_locations_are_refused_in_one_line(cli, model, written, form, location, tmp_path):
    locate(model.graph.initializer[0], location)
    path = written(form)
    for backend in available_backends():
        assert not cli("run", path, *ARGUMENTS, "--backend", backend).error.startswith("unexpected")
    assert not cli("convert", path, "--from", "onnx", "-o", tmp_path / "out.onnx").error.startswith("unexpected")
    assert cli("check", path).code == 1
    assert cli("inspect", path).code == 0


@BACKENDS
class TestInMemory:
    def test_without_a_folder_it_is_refused(self, model, backend):
        for given in (model, model.SerializeToString()):
            with pytest.raises(ValueError, match="the data of tensor 'w' are in another file"):
                onnx_sparse.InferenceSession(given, backend=backend)

    def test_the_caller_can_name_the_folder(self, model, backend, tmp_path):
        for given in (model, model.SerializeToString()):
            options = ort.SessionOptions()
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", str(tmp_path / "models")
            )
            session = onnx_sparse.InferenceSession(given, options, backend=backend)
            assert session.run(None, FEEDS)[0].tolist() == [2, 3]

    def test_the_folder_of_another_model_does_not_count(self, model, written, backend):
        options = ort.SessionOptions()
        session = onnx_sparse.InferenceSession(written(".onnxjson"), options, backend=backend)
        assert session.run(None, FEEDS)[0].tolist() == [2, 3]
        with pytest.raises(ValueError, match="the data of tensor 'w' are in another file"):
            onnx_sparse.InferenceSession(model, options, backend=backend)


@BACKENDS
def test_two_sessions_with_the_same_options_say_nothing(written, backend, capfd):
    options = ort.SessionOptions()
    for _ in range(2):
        onnx_sparse.InferenceSession(written(".onnx"), options, backend=backend)
    assert not capfd.readouterr().err


@BACKENDS
@pytest.mark.skipif(sys.platform != "linux", reason="file names are texts there")
def test_a_folder_whose_name_is_not_utf8(written, backend, tmp_path):
    path = written(".onnx").parent.rename(tmp_path / os.fsdecode(b"\xff")) / "m.onnx"
    with pytest.raises(ValueError, match="only in folders whose names are UTF-8"):
        onnx_sparse.InferenceSession(path, backend=backend)


def test_a_key_that_onnx_does_not_know_is_passed_over(cli, model, tmp_path, recwarn):
    model.graph.initializer[0].external_data.add(key="colour", value="blue")
    path = tmp_path / "models" / "m.onnx"
    path.write_bytes(model.SerializeToString())
    result = cli("convert", path, "-o", tmp_path / "out.onnx")
    assert (result.code, result.err) == (0, "")
    assert not recwarn.list
