"""Tables beside the model, in a file that processes share."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from models.test_quantization import FEEDS, model, table
from onnx import numpy_helper

import onnx_sparse
from onnx_sparse.files import new_file

FEED = {name: FEEDS[name] for name in ("indices", "offsets", "default_index", "per_sample_weights")}


def save(path, rows):
    """A model with a table of so many rows of 128 bytes."""
    onnx.save(model("EmbeddingBagOffsetsSum", table(rows)), path)
    return path


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def answer(path):
    return onnx_sparse.InferenceSession(path).run(None, FEED)[0]


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        (1000, (), ["model.onnx"]),
        (1000, ("--external-data",), ["model.onnx", "model.onnx.data"]),
        (140_000, (), ["model.onnx", "model.onnx.data"]),
        (140_000, ("--one-file",), ["model.onnx"]),
        (140_000, ("--tables", "int8"), ["model.onnx"]),
    ],
)
def test_where_tables_are(cli, tmp_path, out, rows, options, expected):
    source = save(tmp_path / "model.onnx", rows)
    result = cli("convert", source, "-o", out / "model.onnx", *options, "--json")
    assert result.code == 0, result.err
    assert files(out) == expected
    assert result.json["size"] == sum(path.stat().st_size for path in out.iterdir())
    np.testing.assert_allclose(answer(out / "model.onnx"), answer(source), rtol=1e-5 if "int8" not in options else 1)


def test_no_file_where_no_tensor_is_large_enough(cli, tmp_path, out):
    source = save(tmp_path / "model.onnx", 1)
    result = cli("convert", source, "-o", out, "--external-data", "--json")
    assert files(out) == ["model.onnx"]
    assert result.json["size"] == (out / "model.onnx").stat().st_size


@pytest.mark.parametrize("place", ["before", "after"])
def test_no_file_is_left_where_taking_its_name_fails(cli, monkeypatch, tmp_path, out, place):
    """Also where the file has its name already."""
    source = save(tmp_path / "model.onnx", 1000)
    rename = new_file._rename_without_replacing

    def failing(part, name):
        if place == "after":
            rename(part, name)
        raise MemoryError

    (out / "model.onnx.data").write_bytes(b"of somebody else")
    monkeypatch.setattr(new_file, "_rename_without_replacing", failing)
    result = cli("convert", source, "-o", out / "model.onnx", "--external-data")
    assert result.error == "not enough memory"
    assert files(out) == ["model.onnx.data"]
    assert (out / "model.onnx.data").read_bytes() == b"of somebody else"


def test_tables_can_be_mapped(cli, tmp_path, out):
    """They begin at a page."""
    source = save(tmp_path / "model.onnx", 1000)
    assert cli("convert", source, "-o", out, "--external-data").code == 0
    written = onnx.load(out / "model.onnx", load_external_data=False)
    entries = {e.key: e.value for t in written.graph.initializer for e in t.external_data}
    assert int(entries["offset"]) % 4096 == 0


def test_there_and_back_in_place(cli, out):
    path = save(out / "model.onnx", 1000)
    expected = answer(path)
    for option, names in (("--external-data", ["model.onnx", "model.onnx.data"]), ("--one-file", ["model.onnx"])):
        assert cli("convert", path, "-o", path, option).code == 0
        assert files(out) == names
        assert (answer(path) == expected).all()


def test_as_text(cli, tmp_path, out):
    source = save(tmp_path / "model.onnx", 1000)
    assert cli("convert", source, "-o", out / "model.onnxtxt", "--external-data").code == 0
    read = onnx.load(out / "model.onnxtxt")
    assert (numpy_helper.to_array(read.graph.initializer[0]) == table(1000)).all()


def test_both_at_once_are_refused(cli, tmp_path, out):
    source = save(tmp_path / "model.onnx", 1000)
    assert cli("convert", source, "-o", out, "--one-file", "--external-data").code == 2
    assert files(out) == []


@pytest.mark.skipif(os.name == "nt", reason="there are no modes")
@pytest.mark.parametrize("option", ["--one-file", "--external-data"])
def test_what_is_replaced_keeps_its_mode(cli, tmp_path, out, option):
    """And a new file has what the umask leaves."""
    save(tmp_path / "source.onnx", 1000)
    path = out / "model.onnx"
    before = os.umask(0o027)
    try:
        assert cli("convert", tmp_path / "source.onnx", "-o", path, option).code == 0
        assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o640}
        path.chmod(0o600)
        assert cli("convert", path, "-o", path, option).code == 0
        assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}
    finally:
        os.umask(before)


def test_a_model_that_another_process_replaces_meanwhile_stays(cli, monkeypatch, out):
    from onnx_sparse.commands.sources import steps as conversion

    path = save(out / "model.onnx", 10)
    read = conversion.loaded_source

    def then_replaced(*arguments):
        made = read(*arguments)
        save(path, 11)
        return made

    monkeypatch.setattr(conversion, "loaded_source", then_replaced)
    result = cli("convert", path, "-o", path)
    assert (result.code, "was replaced while this command ran, and stays" in result.error) == (1, True)
    (tensor,) = (t for t in onnx.load(path).graph.initializer if t.dims[0] == 11)
    assert files(out) == ["model.onnx"], tensor
