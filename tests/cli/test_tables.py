"""`onnx-sparse tables`: what tables a model has, and replacing some without another conversion."""

from __future__ import annotations

import os
import re

import ml_dtypes
import numpy as np
import onnx
import pytest
from models.test_quantization import FEEDS, ROWS, WIDTH, model, table
from onnx import helper, numpy_helper

import onnx_sparse
from onnx_sparse.models.tables.quantization import FORMATS, quantize_tables

FEED = {name: FEEDS[name] for name in ("indices", "offsets", "default_index", "per_sample_weights")}
NEW = np.random.default_rng(9).standard_normal((ROWS, WIDTH)).astype(np.float32)


def lookup(values):
    """A model of a lookup and a Gather, each with a table."""
    made = model("EmbeddingBagOffsetsSum", values)
    made.graph.node.append(helper.make_node("Gather", ["other", "indices"], ["rows"], name="gather"))
    made.graph.initializer.append(numpy_helper.from_array(values * 2, "other"))
    made.graph.output.append(helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, None))
    return made


def answers(path):
    return onnx_sparse.InferenceSession(path).run(None, FEED)


def equal(got, expected):
    return all((a == b).all() for a, b in zip(got, expected, strict=True))


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def new(tmp_path):
    np.save(tmp_path / "new.npy", NEW)
    return tmp_path / "new.npy"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.fixture(params=["one file", "two files"])
def path(request, cli, tmp_path, folder):
    onnx.save(lookup(table()), tmp_path / "source.onnx")
    option = {"one file": "--one-file", "two files": "--external-data"}[request.param]
    assert cli("convert", tmp_path / "source.onnx", "-o", folder / "model.onnx", option).code == 0
    return folder / "model.onnx"


@pytest.fixture
def beside(cli, tmp_path, folder):
    """A model with its tables in a file beside it."""
    onnx.save(lookup(table()), tmp_path / "source.onnx")
    assert cli("convert", tmp_path / "source.onnx", "-o", folder / "model.onnx", "--external-data").code == 0
    return folder / "model.onnx"


def test_list(cli, path):
    listed = {entry["name"]: entry for entry in cli("tables", path, "--json").json["tables"]}
    assert sorted(listed) == ["emb_table", "other"]
    is_apart = len(files(path.parent)) == 2
    for name, entry in listed.items():
        assert (entry["shape"], entry["type"], entry["bytes"]) == ([ROWS, WIDTH], "float32", ROWS * WIDTH * 4)
        assert entry["file"] == ("model.onnx.data" if is_apart else "model.onnx")
        assert (entry["offset"] is not None) == (entry["checksum"] is not None) == is_apart
        operator = {"emb_table": "EmbeddingBagOffsetsSum", "other": "Gather"}[name]
        assert [reader["operator"] for reader in entry["used_by"]] == [operator]
    shown = cli("tables", path).out
    assert "[600, 32]" in shown
    assert "75.0 KiB" in shown


def test_no_tables(cli, tmp_path):
    onnx.save(helper.make_model(helper.make_graph([], "empty", [], []), ir_version=10), tmp_path / "m.onnx")
    assert "no tables" in cli("tables", tmp_path / "m.onnx").out


def test_replace(cli, path, new):
    assert cli("tables", path, "replace", f"emb_table={new}").code == 0
    expected = lookup(NEW)
    expected.graph.initializer[1].CopyFrom(numpy_helper.from_array(table() * 2, "other"))
    assert equal(answers(path), answers(expected))
    assert cli("tables", path, "--check").code == 0


@pytest.mark.parametrize("others", [1, 3, 1000])
def test_another_process_replaces_a_table_meanwhile(cli, path, new, tmp_path, monkeypatch, others):
    """Neither table is lost; a process that never comes to write says so."""
    from onnx_sparse.models.files import external_data

    np.save(tmp_path / "other.npy", NEW * 3)
    check, left = external_data.only_writer, [others]

    def late(folder):
        if left[0]:  # the other one writes after this one has read
            left[0] -= 1
            with monkeypatch.context() as patch:
                patch.setattr(external_data, "only_writer", check)
                assert cli("tables", path, "replace", f"other={tmp_path / 'other.npy'}").code == 0
        return check(folder)

    monkeypatch.setattr(external_data, "only_writer", late)
    result = cli("tables", path, "replace", f"emb_table={new}")
    assert result.code == (0 if others < 100 else 1)
    assert result.code == 0 or "was replaced while this command ran" in result.error
    expected = onnx.load(path)
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in expected.graph.initializer}
    assert (arrays["other"] == NEW * 3).all()
    assert (arrays["emb_table"] == (NEW if others < 100 else table())).all()


def test_what_stays_is_not_written(cli, beside, folder, new):
    before = (folder / "model.onnx.data").stat()
    for _ in range(2):
        assert cli("tables", beside, "replace", f"emb_table={new}").code == 0
    after = (folder / "model.onnx.data").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert len(files(folder)) == 3  # the file of the first replacement is gone
    both = [f"emb_table={new}", f"other={new}"]
    assert cli("tables", beside, "replace", *both).code == 0
    assert len(files(folder)) == 2
    assert equal(answers(beside)[1:], [NEW[FEEDS["indices"]]])


def test_another_model_shares_what_stays(cli, beside, folder, new):
    old = answers(beside)
    assert cli("tables", beside, "replace", f"emb_table={new}", "-o", folder / "other.onnx").code == 0
    assert equal(answers(beside), old)
    assert files(folder) == ["model.onnx", "model.onnx.data", "other.onnx", "other.onnx.data"]
    assert (folder / "other.onnx.data").stat().st_size == NEW.nbytes
    other = answers(folder / "other.onnx")
    assert not equal(other[:1], old[:1])
    assert equal(other[1:], old[1:])
    onnx.load(folder / "other.onnx")  # which refuses hard links
    # Whatever becomes of the old model, the new one has its tables.
    assert cli("convert", beside, "-o", beside, "--one-file").code == 0
    assert equal(answers(folder / "other.onnx"), other)
    assert equal(answers(beside), old)


def test_another_folder_gets_copies(cli, beside, folder, new, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    out = tmp_path / "elsewhere" / "out.onnx"
    assert cli("tables", beside, "replace", f"emb_table={new}", "-o", out).code == 0
    (folder / "model.onnx.data").unlink()
    assert equal(answers(out)[1:], [table()[FEEDS["indices"]] * 2])
    assert cli("tables", out, "--check").code == 0


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("option", ["--one-file", "--external-data"])
def test_smaller_tables_take_float32(cli, tmp_path, folder, new, format, option):
    onnx.save(model("EmbeddingBagOffsetsSum", table()), tmp_path / "m.onnx")
    out = folder / "model.onnx"
    assert cli("convert", tmp_path / "m.onnx", "-o", out, "--tables", format, option).code == 0
    (listed,) = cli("tables", out, "--json").json["tables"]
    assert listed["bits"] == {"int8": 8, "int4": 4}.get(format)
    assert cli("tables", out, "replace", f"{listed['name']}={new}").code == 0
    assert equal(answers(out), answers(quantize_tables(model("EmbeddingBagOffsetsSum", NEW), format)))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (NEW[:, :-1], r"float32 \[600, 31\]; table emb_table is float32 \[600, 32\]$"),
        (NEW[:-1], r"float32 \[599, 32\]; "),
        (NEW.astype(np.float64), r"float64 \[600, 32\]; "),
        (NEW.astype(ml_dtypes.bfloat16), "; table emb_table is float32"),
        (np.float32(1), r"float32 \[\]; "),
    ],
)
def test_arrays_that_do_not_fit(cli, path, tmp_path, array, message):
    np.save(tmp_path / "new.npy", array)
    content, names = path.read_bytes(), files(path.parent)
    result = cli("tables", path, "replace", f"emb_table={tmp_path / 'new.npy'}")
    assert result.code == 1
    assert re.search(message, result.err.strip()), result.err
    assert (path.read_bytes(), files(path.parent)) == (content, names)


def test_half_floats_that_overflow(cli, tmp_path, folder):
    onnx.save(model("EmbeddingBagOffsetsSum", table()), tmp_path / "m.onnx")
    out = folder / "model.onnx"
    assert cli("convert", tmp_path / "m.onnx", "-o", out, "--tables", "float16").code == 0
    large = NEW.copy()
    large[3, 5] = 1e5
    np.save(tmp_path / "new.npy", large)
    name = cli("tables", out, "--json").json["tables"][0]["name"]
    result = cli("tables", out, "replace", f"{name}={tmp_path / 'new.npy'}")
    assert "[3,5] = 100000.0 is beyond it" in result.err


def test_other_byte_and_row_orders(cli, path, tmp_path):
    np.save(tmp_path / "new.npy", np.asfortranarray(NEW.astype(">f4")))
    assert cli("tables", path, "replace", f"other={tmp_path / 'new.npy'}").code == 0
    assert equal(answers(path)[1:], [NEW[FEEDS["indices"]]])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["replace"], 2, "replace needs NAME=FILE.npy"),
        (["replace", "emb_table"], 2, "'emb_table' is not NAME=FILE.npy"),
        (["replace", "emb_table=NEW", "emb_table=NEW"], 2, "emb_table is given twice"),
        (["replace", "emb=NEW"], 1, "has no table emb; its tables are emb_table, other"),
        (["replace", "emb_table=none.npy"], 1, "none.npy: no such file"),
        (["replace", "emb_table=NEW", "-o", "NEW"], 2, "it is what this command reads"),
        (["-o", "x.onnx"], 2, "--output is for replace"),
    ],
)
def test_wrong_arguments(cli, beside, folder, new, arguments, code, message):
    names = files(folder)
    result = cli("tables", beside, *(argument.replace("NEW", str(new)) for argument in arguments))
    assert (result.code, files(folder)) == (code, names)
    assert message in result.err


def test_a_file_that_has_changed(cli, beside, folder):
    assert cli("tables", beside, "--check").code == 0
    with (folder / "model.onnx.data").open("r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))
    result = cli("tables", beside, "--check")
    assert result.code == 1
    assert "is not what" in result.err


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "link/secret", "a/../../secret", ""])
def test_files_outside_the_folder(cli, beside, folder, tmp_path, new, name):
    """A model cannot make another one that has their content."""
    (tmp_path / "secret").write_bytes(b"secret")
    os.symlink(tmp_path, folder / "link")
    changed = onnx.load(beside, load_external_data=False)
    for tensor in changed.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = name
    beside.write_bytes(changed.SerializeToString())
    result = cli("tables", beside, "replace", f"other={new}", "-o", folder / "out.onnx")
    assert result.code == 1
    assert "outside the model's folder" in result.err
    assert "out.onnx" not in files(folder)


def test_a_missing_file(cli, beside, folder, new):
    (folder / "model.onnx.data").unlink()
    names = files(folder)
    result = cli("tables", beside, "replace", f"other={new}", "-o", folder / "out.onnx")
    assert result.code == 1
    assert "model.onnx.data: no such file" in result.err
    assert files(folder) == names
