"""`onnx-sparse demo`."""

from __future__ import annotations

import json
import shlex

import pytest

from onnx_sparse.cli import demo


def test_recorded(cli):
    result = cli("demo", "--recorded")
    assert result.code == 0
    assert result.err == ""
    assert "TensorFlow's answers are recorded" in result.out
    assert "(empty: water)" in result.out
    assert "The answers are the same, to the last bit." in result.out


def test_it_fits_a_terminal_of_80_columns(cli):
    assert max(map(len, cli("demo", "--recorded").out.splitlines())) <= 80


def test_recorded_where_tensorflow_is_not_installed(cli, monkeypatch):
    monkeypatch.setattr(demo, "_has_tensorflow", lambda: False)
    assert cli("demo", "--json").json["recorded"]


def test_json(cli):
    document = cli("demo", "--recorded", "--json").json
    assert document["ok"]
    assert document["our_nodes"] == ["SparseFillEmptyRows", "EmbeddingSegmentsSum"]
    assert document["onnxruntime_answers"] == document["tensorflow_answers"]


def test_answers_that_differ_fail(cli, monkeypatch):
    shown = demo.load_recorded()
    shown.answers["totals"][0, 0] += 1
    monkeypatch.setattr(demo, "load_recorded", lambda: shown)
    result = cli("demo", "--recorded")
    assert result.code == 1
    assert "totals: 1.0 apart" in result.out


def test_keep(cli, tmp_path):
    folder = tmp_path / "new" / "folder"
    result = cli("demo", "--recorded", "--keep", folder)
    assert f"onnx-sparse run {folder}/baskets.onnx --input {folder}/inputs.npz" in result.out
    ran = cli("run", folder / "baskets.onnx", "--input", folder / "inputs.npz", "--json").json
    assert ran["outputs"][0]["shape"] == [4, 2]


def test_scores_of_the_rows_that_are_kept(cli, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    shown = cli("demo", "--recorded", "--keep", tmp_path / "kept").out
    line = next(line for line in shown.splitlines() if line.startswith("  onnx-sparse score"))
    out = tmp_path / "scores"
    assert cli(*shlex.split(line)[1:-1], out, "--keep", "basket").code == 0
    scores = pq.read_table(out)
    assert scores["basket"].to_pylist() == ["0", "1", "2", "3"]  # the texts of the CSV file
    assert scores["totals"].to_pylist() == demo.load_recorded().answers["totals"].tolist()


def test_suggested_commands_can_be_pasted_into_a_shell(cli, tmp_path):
    folder = tmp_path / "a b"
    shown = cli("demo", "--recorded", "--keep", folder).out
    line = next(line for line in shown.splitlines() if line.startswith("  onnx-sparse run"))
    assert cli(*shlex.split(line)[1:]).code == 0


def test_keep_where_somebody_elses_files_are(cli, tmp_path):
    (tmp_path / "inputs.npz").write_text("mine")
    error = cli("demo", "--recorded", "--keep", tmp_path).error
    assert error == f"{tmp_path}/inputs.npz exists and is not from a demo; give --keep another folder"
    assert (tmp_path / "inputs.npz").read_text() == "mine"


def test_keep_twice(cli, tmp_path):
    for _ in range(2):
        assert cli("demo", "--recorded", "--keep", tmp_path).code == 0


def test_keep_in_a_file(cli, tmp_path):
    (tmp_path / "file").touch()
    assert "cannot make the directory" in cli("demo", "--recorded", "--keep", tmp_path / "file").error


def test_the_shipped_model_is_current(tmp_path):
    """It equals what TensorFlow saves now; `python -m onnx_sparse.cli.demo.tensorflow_model` records it again."""
    pytest.importorskip("tensorflow")
    from onnx_sparse.cli.demo import tensorflow_model as demo_tensorflow

    demo_tensorflow.record(tmp_path)
    now = json.loads((tmp_path / demo.ANSWERS_FILE).read_text())
    shipped = demo.load_recorded()
    assert now["inputs"] == demo.INPUTS
    for name, answer in now["answers"].items():
        assert shipped.answers[name].tolist() == answer["values"]
    from onnx_sparse.converters.tensorflow import convert

    assert convert(tmp_path / demo.SAVED_MODEL) == shipped.model


def test_live(cli, tmp_path):
    pytest.importorskip("tensorflow")
    result = cli("demo", "--keep", tmp_path)
    assert result.code == 0
    assert "recorded" not in result.out
    assert f"  onnx-sparse convert {tmp_path}/saved_model -o again.onnx --verify" in result.out


def test_a_source_of_every_road(cli, tmp_path):
    document = cli("demo", "--recorded", "--keep", tmp_path, "--all", "--json").json
    assert {path.removeprefix(f"{tmp_path}/") for path in document["sources"]} >= {"model.xml", "layer.json"}
    assert cli("convert", tmp_path / "model.xml", "-o", tmp_path / "from_ir.onnx").code == 0
    assert cli("demo", "--recorded", "--keep", tmp_path, "--all").code == 0  # again


def test_the_dump_of_ascend_is_replayed_whole(cli, tmp_path):
    """Each operation is compared: nothing is missing in the first dump that a reader replays."""
    cli("demo", "--recorded", "--keep", tmp_path, "--all")
    (layer,) = cli("replay", tmp_path / "msit_dump_20260101_120000", "--json").json["layers"]
    assert [(t["operation"], t["verdict"]) for t in layer["tensors"]] == [
        ("ElewiseOperation_0_y", "equal"),
        ("Layer_0", "equal"),
    ]
    assert not any(o["reason"] for o in layer["operations"])


def test_sources_never_replace_files_of_somebody_else(cli, tmp_path):
    (tmp_path / "model.xml").write_text("mine")
    assert "model.xml exists and is not from a demo" in cli("demo", "--recorded", "--keep", tmp_path, "--all").err
    assert cli("demo", "--recorded", "--keep", tmp_path).code == 0  # writes none of that name
    assert (tmp_path / "model.xml").read_text() == "mine"


def test_all_sources_need_a_folder(cli):
    assert "--all keeps sources: say where with --keep DIR" in cli("demo", "--recorded", "--all").err
