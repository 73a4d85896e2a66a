"""`onnx_sparse.convert`, `check`, `inspect`, `score`, `tables` and `report`: what the command line says, in Python."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnx_sparse
from onnx_sparse.cli import demo, main
from onnx_sparse.converters import ConversionError

SAVED_MODEL = next(Path(demo.__file__).parent.rglob("saved_model.pb")).parent
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def converted():
    return onnx_sparse.convert(SAVED_MODEL)


def as_the_command_says(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    """The document of a command."""
    capsys.readouterr()
    main([*map(str, arguments), "--json"])
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_convert_writes_what_the_command_writes(converted, tmp_path, capsys):
    said = as_the_command_says(capsys, "convert", SAVED_MODEL, "-o", tmp_path / "command.onnx")
    onnx_sparse.convert(str(SAVED_MODEL), tmp_path / "python.onnx")
    assert (tmp_path / "python.onnx").read_bytes() == (tmp_path / "command.onnx").read_bytes()
    assert converted.model == onnx.load(tmp_path / "command.onnx")
    assert (converted.origin, converted.nodes) == ("tensorflow", said["nodes"])
    assert {"fired": converted.fired, "declined": list(converted.declined)} == said["rules"]
    assert "default-row" in str(converted)
    assert "<table>" in converted._repr_html_()


def test_the_forms_of_a_model(converted):
    assert onnx_sparse.check(onnx_sparse.convert(SAVED_MODEL, portable=True).model).form == "functions"
    assert onnx_sparse.check(onnx_sparse.convert(SAVED_MODEL, lower=True).model).form == "plain"
    assert onnx_sparse.check(converted.model).form == "domain"
    assert (
        converted.model.opset_import[0].version
        < onnx_sparse.convert(SAVED_MODEL, opset=21).model.opset_import[0].version
    )


def test_a_model_in_memory_is_verified_with_itself(converted):
    ragged = onnx_sparse.convert(converted.model, features="ragged", verify=True)
    assert [record.ok for record in ragged.verification] == [True, True]
    assert "largest difference" in str(ragged)


def test_nothing_is_written_when_the_answers_differ(converted, tmp_path, monkeypatch):
    from onnx_sparse.commands.sources import verification

    monkeypatch.setattr(verification, "failure", lambda records, given: "verification fails, no model is written: x")
    with pytest.raises(ConversionError, match="verification fails"):
        onnx_sparse.convert(converted.model, tmp_path / "model.onnx", verify=True)
    assert list(tmp_path.iterdir()) == []


def test_convert_does_in_python_what_it_does_in_a_shell(converted, tmp_path):
    source, inputs, page = tmp_path / "source.onnx", tmp_path / "inputs.json", tmp_path / "report.html"
    converted.save(source)
    (tmp_path / "out").mkdir()
    made = onnx_sparse.convert(
        source,
        tmp_path / "out",
        fuse=True,
        explain=True,
        tables="float16",
        write_inputs=inputs,
        report=page,
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["source.onnx"]
    assert made.tables == {"format": "float16", "changed": [], "distance": None}
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    given = json.loads(inputs.read_text("utf-8"))
    for verify_with in ([str(inputs)], [f"{name}={json.dumps(value)}" for name, value in given.items()]):
        verified = onnx_sparse.convert(source, verify_with=verify_with)
        assert [record.ok for record in verified.verification] == [True, True]
    assert [record.ok for record in onnx_sparse.convert(source, verify_with=feeds(given)).verification] == [True, True]


def feeds(given: dict[str, object]) -> dict[str, np.ndarray]:
    return {name: np.array(value, np.int64) for name, value in given.items()}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"verify_with": ["x"]}, "verify_with= x: expected FILE.npz"),
        ({"write_inputs": "inputs.txt"}, "cannot write inputs.txt: expected a name that ends in .json or .npz"),
        ({"report": "report.html"}, "report= is about a file: give output=, too"),
        ({"explain": True}, "explain=True of an ONNX file is for fuse=True"),
        ({"repair_scatter": ["add"]}, "repair_scatter= is for fuse=True"),
        ({"tag": "serve"}, "tag= is for TensorFlow's models, and this source is onnx"),
        ({"run": False}, "run=False is for torch's programs, and this source is onnx"),
        ({"weights": "a.bin"}, "weights= is for OpenVINO's IRs, and this source is onnx"),
        ({"keep_unknown": True}, "keep_unknown=True is for Ascend's graphs, and this source is onnx"),
    ],
)
def test_what_convert_refuses_of_a_model_in_memory(converted, options, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        onnx_sparse.convert(converted.model, **options)


def test_tables_are_listed_and_replaced(converted, tmp_path, capsys):
    path = tmp_path / "model.onnx"
    converted.save(path)
    (table,) = onnx_sparse.tables(path).tables
    assert [table] == as_the_command_says(capsys, "tables", path)["tables"]
    new = np.arange(np.prod(table["shape"]), dtype=np.float32).reshape(table["shape"])
    made = onnx_sparse.tables(path, {table["name"]: new}, output=tmp_path / "new.onnx", check=True)
    assert table["name"] in str(made)
    assert "<table>" in made._repr_html_()
    (tensor,) = [t for t in onnx.load(made.model).graph.initializer if t.name == table["name"]]
    assert np.array_equal(onnx.numpy_helper.to_array(tensor), new)
    for given, reason in (({"other": new}, "has no table other"), ({table["name"]: new[:1]}, "the array is float32")):
        with pytest.raises(ValueError, match=reason):
            onnx_sparse.tables(path, given)
    with pytest.raises(ValueError, match="output= is for replace"):
        onnx_sparse.tables(path, output="new.onnx")


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"portable": True, "lower": True}, ValueError, "exclude each other"),
        ({"fuse": True}, ValueError, "fuse=True is for ONNX files, and this source is tensorflow"),
        ({"features": "sparse"}, ValueError, "features = 'sparse' is not one of ragged"),
        ({"signature": "other"}, ConversionError, "other"),
        ({"no_such_option": 1}, TypeError, "no_such_option"),
        ({"origin": "caffe"}, ValueError, "is not one of tensorflow"),
        ({"opset": 5}, ConversionError, "opset"),
    ],
)
def test_what_convert_refuses(options, error, reason):
    with pytest.raises(error, match=reason):
        onnx_sparse.convert(SAVED_MODEL, **options)


def test_a_source_that_is_not_there():
    with pytest.raises(ConversionError, match=r"nowhere\.onnx: no such file"):
        onnx_sparse.convert("nowhere.onnx")


def test_inspect_says_what_the_command_says(converted, tmp_path, capsys):
    path = tmp_path / "model.onnx"
    converted.save(path)
    assert onnx_sparse.inspect(path).document == as_the_command_says(capsys, "inspect", path)
    seen = onnx_sparse.inspect(converted.model)
    assert [feature["name"] for feature in seen["features"]]
    assert "EmbeddingSegmentsSum" in str(seen)
    assert "4 nodes, 2 of the domain" in repr(seen)
    assert seen._repr_html_().count("<table>") == 4


def test_check_says_what_the_command_says(converted, tmp_path, capsys):
    broken = onnx.ModelProto()
    broken.CopyFrom(converted.model)
    broken.graph.node[0].input[0] = HOSTILE
    path = tmp_path / "model.onnx"
    onnx.save(broken, path)
    found = onnx_sparse.check(path)
    said = as_the_command_says(capsys, "check", path)
    assert not found
    assert [finding.message for finding in found.findings] == [finding["message"] for finding in said["findings"]]
    assert "1 error" in str(found)
    assert HOSTILE not in found._repr_html_()
    assert onnx_sparse.check(converted.model)
    assert "ok, form domain" in repr(onnx_sparse.check(converted.model))


def test_score_says_what_the_command_says(converted, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    path, rows = tmp_path / "model.onnx", tmp_path / "rows.jsonl"
    converted.save(path)
    (feature,) = onnx_sparse.features(path)
    rows.write_text("".join(json.dumps({feature: row}) + "\n" for row in ([1, 2], [], [99], [3])))
    with pytest.raises(ValueError, match=r"none\.jsonl"):
        onnx_sparse.score(path, tmp_path / "none.jsonl", tmp_path / "scores.parquet")
    scored = onnx_sparse.score(path, rows, tmp_path / "scores.parquet", on_bad_row="skip")
    assert (scored.rows, scored.bad, bool(scored)) == (4, 1, False)
    assert parquet.read_table(tmp_path / "scores.parquet").num_rows == 3
    assert "4 rows in" in str(scored)
    assert "<table>" in scored._repr_html_()
    with pytest.raises(ValueError, match=r"rows\.jsonl, row 2, column 'items'"):
        onnx_sparse.score(path, rows, tmp_path / "failed")
    with pytest.raises(ValueError, match="engine = 'dask' is not one of"):
        onnx_sparse.score(path, rows, tmp_path / "scores.parquet", engine="dask")
    for held in (None, {"items": [[1]]}, [[1], [2]]):
        with pytest.raises(TypeError, match=r"^rows: expected paths of files, got .*; session\.predict takes rows"):
            onnx_sparse.score(path, held, tmp_path / "held")


def test_benchmark_takes_rows_of_features(converted):
    (feature,) = onnx_sparse.features(converted.model)
    made = onnx_sparse.benchmark(converted.model, rows={feature: [[1], [2, 3]]}, seconds=0.01, threads=[1])
    assert [line.rows for line in made.lines] == [2]
    with pytest.raises(ValueError, match="feature 'items' is missing; the rows have 'nothing'"):
        onnx_sparse.benchmark(converted.model, rows={"nothing": [[1]]})


def test_report_shows_itself_in_a_frame(converted, tmp_path):
    made = onnx_sparse.report(converted.model, times=False)
    html = made._repr_html_()
    assert html.startswith('<iframe sandbox="allow-scripts"')
    assert "<script" not in html
    made.save(tmp_path / "report.html")
    assert "SparseFillEmptyRows" in (tmp_path / "report.html").read_text("utf-8")
    assert "nodes" in str(made)


def test_features_and_sessions_show_themselves_in_a_notebook(converted):
    features = onnx_sparse.features(converted.model)
    session = onnx_sparse.InferenceSession(converted.model)
    for shown in (features, session):
        assert "<table>" in shown._repr_html_()
        assert next(iter(features)) in repr(shown)
    assert len(session.run(None, features.feeds({next(iter(features)): [[1], []]}))[0]) == 2


def test_a_name_is_text_in_a_notebook():
    graph = onnx.parser.parse_graph("g (float[2] x) => (float[2] y) {y = Neg(x)}")
    graph.input[0].name = graph.node[0].input[0] = HOSTILE
    model = onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 18)])
    shown = (onnx_sparse.inspect(model), onnx_sparse.features(model), onnx_sparse.InferenceSession(model))
    for value in shown:
        assert HOSTILE not in value._repr_html_()
        assert "&lt;script&gt;" in value._repr_html_()
    assert np.array_equal(shown[2].run(None, {HOSTILE: np.ones(2, np.float32)})[0], [-1, -1])
