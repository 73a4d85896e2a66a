"""`score -o scores.csv`, `.json`, `.jsonl` and `-`: a file of text, whole or not at all, with the values of Parquet."""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from onnx_sparse.scoring.text_scores import TextScores  # noqa: E402

ROWS = 60


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Twice a number, and a vector of it."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Add", ["n", "n"], ["twice"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["column"]),
        helper.make_node("Concat", ["column", "column"], ["both"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [value("n", TensorProto.FLOAT, ["N"])],
        [value("twice", TensorProto.FLOAT, ["N"]), value("both", TensorProto.FLOAT, ["N", 2])],
        [helper.make_tensor("axis", TensorProto.INT64, [1], [1])],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def numbers() -> np.ndarray:
    special = [0.1, -0.0, 1e-30, 3.0, 1e20, float("nan"), float("inf"), float("-inf")]
    return np.array(special + [k / 7 for k in range(ROWS - len(special))], np.float32)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    table = pa.table(
        {
            "n": numbers(),
            "name": pa.array([None if k % 9 == 5 else f'a,"{k}"\n é' for k in range(ROWS)]),
            "big": pa.array([2**60 + k for k in range(ROWS)]),
            "words": pa.array(["a", "b", None] * (ROWS // 3)).dictionary_encode(),
            "point": pa.array([{"x": [k, None], "y": 0.1} if k % 4 else None for k in range(ROWS)]),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


KEPT = ("name", "big", "words", "point")


def parsed(text: str, form: str) -> list[dict]:
    if form == "csv":
        lists = ("both", "point")
        return [
            {k: json.loads(v or "null") if k in lists else v for k, v in row.items()}
            for row in csv.DictReader(io.StringIO(text, newline=""))
        ]
    return json.loads(text) if form == "json" else [json.loads(line) for line in text.splitlines()]


def same(got: object, want: object) -> bool:
    """Whether a value is another one, by the bits of a float32 if it is a number."""
    if isinstance(want, list):
        return isinstance(got, list) and all(map(same, got, want))
    if isinstance(want, float):
        return np.float32(got).tobytes() == np.float32(want).tobytes()
    return got == ("" if want is None and not isinstance(got, dict) and got is not None else want) or got == str(want)


@pytest.mark.parametrize("name", ["scores.csv", "scores.JSON", "scores.jsonl", "scores.ndjson"])
def test_one_file_of_text_has_the_values_of_parquet(cli, model, rows, tmp_path, name):
    keep = [f"--keep={column}" for column in KEPT]
    assert cli("score", model, rows, "-o", tmp_path / "scores.parquet", *keep).code == 0
    right = pq.read_table(tmp_path / "scores.parquet").to_pylist()
    out = tmp_path / name
    assert cli("score", model, rows, "-o", out, *keep, "--batch-rows", "7").code == 0
    found = parsed(out.read_bytes().decode(), {".ndjson": "jsonl"}.get(out.suffix, out.suffix[1:].lower()))
    assert [list(row) for row in found] == [list(row) for row in right]
    for got, want in zip(found, right, strict=True):
        assert all(same(got[key], want[key]) for key in want), (got, want)
    before = out.read_bytes()
    assert "is there already" in cli("score", model, rows, "-o", out, *keep).error
    assert cli("score", model, rows, "-o", out, *keep, "--resume").code == 0
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["m.onnx", "rows.parquet", "scores.parquet", name]
    )


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_standard_output(model, tmp_path, form):
    """CSV if the rows are CSV; also if a kept column turns out to be text when rows have been written."""
    source = tmp_path / f"rows.{form}"
    texts = ["7"] * 30 + ["u7"] * 30
    if form == "csv":
        source.write_text("n,id\n" + "".join(f"{k / 2},{t}\n" for k, t in enumerate(texts)))
    else:
        ids = [7] * 30 + ["u7"] * 30
        source.write_text("".join(json.dumps({"n": k / 2, "id": t}) + "\n" for k, t in enumerate(ids)))
    command = [sys.executable, "-m", "onnx_sparse", "score", model, source, "-o", "-", "--keep", "id"]
    done = subprocess.run([*command, "--batch-rows", "4"], capture_output=True, text=True, cwd=tmp_path, check=True)
    found = parsed(done.stdout, form)
    assert [float(row["twice"]) for row in found] == list(range(60))
    assert [str(row["id"]) for row in found] == texts
    assert not (tmp_path / "-").exists()
    refused = subprocess.run([*command, "--json"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (refused.returncode, [*json.loads(refused.stdout)]) == (2, ["error"])


def test_bad_rows_leave_no_half_of_a_file(cli, model, tmp_path):
    source, out = tmp_path / "rows.csv", tmp_path / "scores.csv"
    source.write_text("n\n" + "1.5\n" * 50 + "x\n")
    assert cli("score", model, source, "-o", out, "--batch-rows", "5").code == 1
    assert not out.exists()
    assert cli("score", model, source, "-o", out, "--batch-rows", "5", "--on-bad-row", "skip").code == 0
    assert out.read_text().splitlines()[0] == "twice,both"
    assert len(out.read_text().splitlines()) == 51
    assert pq.read_metadata(tmp_path / "_bad" / "scores.parquet").num_rows == 1
    source.write_text("n\n")
    for name, content in (("e.csv", "twice,both\n"), ("e.json", "[]\n"), ("e.jsonl", "")):
        assert cli("score", model, source, "-o", tmp_path / name).code == 0
        assert (tmp_path / name).read_text() == content


def test_one_file_is_of_one_file_of_rows(cli, model, tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("n\n1\n")
    error = cli("score", model, tmp_path / "a.csv", tmp_path / "b.csv", "-o", tmp_path / "s.csv").error
    assert "is one file, and there are 2 files of rows" in error or "unrecognized" in error
    (tmp_path / "c.csv").mkdir()
    assert cli("score", model, tmp_path / "a.csv", "-o", tmp_path / "c.csv").code == 0
    assert (tmp_path / "c.csv" / "a.parquet").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("after", [0.0, 0.05, 0.3])
def test_a_killed_run_leaves_nothing_of_its_name(model, tmp_path, after):
    source, out = tmp_path / "rows.csv", tmp_path / "scores.csv"
    source.write_text("n\n" + "".join(f"{k}\n" for k in range(400_000)))
    out.write_text("before")
    command = [sys.executable, "-m", "onnx_sparse", "score", model, source, "-o", out, "--overwrite"]
    process = subprocess.Popen([*command, "--batch-rows", "1000"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (parts := list(tmp_path.glob(".onnx-sparse-*"))) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert parts
    time.sleep(after)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert out.read_text() == "before"
    source.write_text("n\n1\n")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert out.read_text() == 'twice,both\n2.0,"[1.0, 1.0]"\n'
    assert not list(tmp_path.glob(".onnx-sparse-*"))


@pytest.mark.parametrize("form", ["csv", "json", "jsonl"])
def test_every_type_is_written(form):
    day = datetime.date(2024, 1, 31)
    table = pa.table(
        {
            "bytes": pa.array([b"\xff", None]),
            "day": pa.array([day, None]),
            "time": pa.array([datetime.datetime(2024, 1, 31, 5), None], pa.timestamp("us", "UTC")),
            "span": pa.array([datetime.timedelta(seconds=5), None]),
            "money": pa.array([Decimal("1.50"), None]),
            "flag": pa.array([True, None]),
            "half": pa.array(np.array([0.1, 2], np.float16)),
            "none": pa.nulls(2),
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "fixed": pa.array([[[1.5], []], None], pa.list_(pa.list_(pa.float32()), 2)),
            "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([7])),
            "structs": pa.array([[{"a": "é"}], [None]]),
        }
    )
    file = io.BytesIO()
    with TextScores(file, form, table.schema.names, ",") as writer:
        writer.write_table(table)
        writer.write_table(table.slice(0, 0))
        writer.write_table(table.slice(1))
    first, second, third = parsed(file.getvalue().decode(), form)
    assert second == third
    if form == "csv":
        assert first["money"] == "1.50"
        assert (first["day"], first["flag"], first["fixed"], first["structs"], second["fixed"]) == (
            "2024-01-31",
            "true",
            "[[1.5], []]",
            '[{"a": "é"}]',
            "",
        )
        return
    assert first["bytes"] == {"b64": "/w=="}
    assert (first["day"], first["money"], first["half"], first["fixed"]) == ("2024-01-31", "1.50", 0.1, [[1.5], []])
    assert (first["map"], first["structs"], first["runs"]) == ([["k", 1]], [{"a": "é"}], 7)
    assert {second[name] for name in ("bytes", "day", "time", "span", "money", "flag", "none", "map")} == {None}
