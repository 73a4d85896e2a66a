"""`onnx-sparse score`: rows of text by the types of the model, and bad ones by file, row and column."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
from typing import Any

import onnx
import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402
from cli.test_score import arrow_file, bad_rows, check, csv, json_lines, pooling_model, rows  # noqa: E402

from onnx_sparse.scoring import row_files, text_rows  # noqa: E402


@pytest.fixture
def model(save):
    return save(pooling_model())


def scored(out: Any, name: str = "a") -> Any:
    return pq.read_table(out / f"{name}.parquet")


# --- Values are what they are -----------------------------------------------------------------------------------------

MISFITS = ["[5.7]", "[2.0]", "[1e0]", '["5"]', "[true]", "[9223372036854775808]", "[[1]]", "[NaN]", "7", '"7"', "{}"]


@pytest.mark.parametrize("value", MISFITS)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_ids_are_whole_numbers(cli, model, tmp_path, kind, value):
    """pyarrow would make 5 of 5.7, and 1 of true."""
    cells = value.replace('"', '""')
    lines = {
        "csv": f'items,age\n[1],2\n"{cells}",3\n[2],4\n',
        "jsonl": f'{{"items": [1], "age": 2}}\n{{"items": {value}, "age": 3}}\n{{"items": [2], "age": 4}}\n',
    }
    (tmp_path / f"a.{kind}").write_text(lines[kind])
    given = ["score", model, tmp_path / f"a.{kind}", "-o", tmp_path / "out"]
    result = cli(*given)
    assert result.code == 1
    assert re.search(rf"a.{kind}, column 'items', row 1(, position 0)?: ", result.error)
    assert cli(*given, "--on-bad-row", "skip", "--json").json["bad"] == 1
    assert scored(tmp_path / "out")["older"].to_pylist() == [3, 5]
    assert pq.read_table(tmp_path / "out" / "_bad" / "a.parquet")["onnx_sparse_row"].to_pylist() == [1]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_large_ids_keep_their_last_digit(cli, save, tmp_path, kind):
    from onnx import parser

    identity = """<ir_version: 10, opset_import: ["" : 18]> g (int64[n] x) => (int64[n] y) { y = Identity (x) }"""
    large = [2**53 + 1, -(2**63), 2**63 - 1, 12345678901234567]
    texts = {"csv": ["x", *map(str, large)], "jsonl": [json.dumps({"x": number}) for number in large]}
    (tmp_path / f"a.{kind}").write_text("\n".join(texts[kind]))
    path = save(parser.parse_model(identity))
    assert cli("score", path, tmp_path / f"a.{kind}", "-o", tmp_path / "out", "--keep", "x").code == 0
    assert scored(tmp_path / "out")["y"].to_pylist() == large
    assert scored(tmp_path / "out")["x"].to_pylist() == large


# --- Kept columns -----------------------------------------------------------------------------------------------------

KEYS = ["00123", "1e5", "12345678901234567", "2024-01-31", "true", "NA", "", " x ", "ü", 'a"b', "1.10", "null", "-0"]


def test_kept_columns_of_csv_are_their_texts(cli, model, tmp_path):
    quoted = ['"' + key.replace('"', '""') + '"' for key in KEYS]
    (tmp_path / "a.csv").write_text("uid,items,age\n" + "".join(f"{key},[1],2\n" for key in quoted))
    assert cli("score", model, tmp_path / "a.csv", "-o", tmp_path / "out", "--keep", "uid").code == 0
    assert scored(tmp_path / "out")["uid"].to_pylist() == KEYS


def test_a_type_for_a_kept_column(cli, model, tmp_path):
    (tmp_path / "a.csv").write_text("uid,items,age\n7,[1],2\nu8,[1],3\n,[2],4\n")
    given = ["score", model, tmp_path / "a.csv", "-o", tmp_path / "out", "--keep", "uid"]
    assert "'u8' does not fit into int64" in cli(*given, "--column-type", "uid=int64").error
    assert cli(*given, "--column-type", "uid=int64", "--on-bad-row", "skip").code == 0
    assert scored(tmp_path / "out")["uid"].to_pylist() == [7, None]
    assert "no such type" in cli(*given, "--column-type", "uid=number").error
    assert "the column is not kept" in cli(*given, "--column-type", "id=int64").error


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["7", "00123"], ["7", "00123"]),
        (["2024-01-31", "2024-01-31 10:00:00"], ["2024-01-31", "2024-01-31 10:00:00"]),
        ([2**53 + 1, -1], [2**53 + 1, -1]),
        ([1, 2.5], [1.0, 2.5]),
        ([1, None], [1, None]),
        ([True, None], [True, None]),
        ([7, "u7"], ["7", "u7"]),
        ([2**53 + 1, 0.5], [str(2**53 + 1), "0.5"]),
        ([2**64, 1], [str(2**64), "1"]),
        (["0.1000000000000000055511151231257827"], ["0.1000000000000000055511151231257827"]),
        (["1e400", 1.5], ["1e400", "1.5"]),
        (["1e-400", 1.5], ["1e-400", "1.5"]),
        ([1e300, 0.1], [1e300, 0.1]),
        ([[1, 2], []], [[1, 2], []]),
        ([[1], ["a"]], ["[1]", '["a"]']),
        ([{"a": 1}, {"b": "x"}], [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
        ([{"a": 1}, {"a": "x"}], ['{"a": 1}', '{"a": "x"}']),
    ],
)
@pytest.mark.parametrize("between", [0, 60])
def test_kept_columns_of_json_lines_lose_nothing(cli, model, tmp_path, monkeypatch, values, expected, between):
    """Also where a value that needs another type comes late."""
    monkeypatch.setattr(text_rows, "_PART", 200)
    numbers = ["0.1000000000000000055511151231257827", "1e400", "1e-400"]
    first, *others = [value if value in numbers else json.dumps(value) for value in values]
    texts = [first, *["null"] * between, *others]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"items": [1], "age": 2, "uid": {text}}}\n' for text in texts))
    assert cli("score", model, tmp_path / "a.jsonl", "-o", tmp_path / "out", "--keep", "uid").code == 0
    found = scored(tmp_path / "out")["uid"].to_pylist()
    assert [found[0], *found[1 + between :]] == expected
    assert found[1 : 1 + between] == [None] * between


def test_a_column_that_no_object_has(cli, model, tmp_path):
    """A misspelled name would give every row an empty list."""
    (tmp_path / "a.jsonl").write_text('{"items": [1], "age": 2}\n' * 3)
    given = ["score", model, tmp_path / "a.jsonl", "-o", tmp_path / "out"]
    assert "no column 'basket'; columns are" in cli(*given, "--columns", "items=basket").error
    (tmp_path / "a.jsonl").write_text('{"age": 2}\n{"items": [1], "age": 3}\n')
    assert cli(*given).code == 0


# --- Bad rows ---------------------------------------------------------------------------------------------------------

BAD_LINES = [
    '{"items": 5, "age": 1}',
    '{"items": [1], "age": "x"}',
    '{"items": [1], "age": 1',
    '{"items": [1], "age": 1}}',
    '{"items": [1], "items": [2], "age": 1}',
    '{"items": [1], "age": 1} {"items": [1], "age": 1}',
    '{"items": [null], "age": 1}',
    '{"items": [1], "age": null}',
    '{"items": [9], "age": 1}',
    '{"items": [1], "age": 1e400}',
    "[1]",
    "null",
    "{",
    "x",
    "[" * 1000,
]


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_one_bad_row(cli, model, tmp_path, monkeypatch, line):
    monkeypatch.setattr(text_rows, "_PART", 500)
    good = '{"items": [1, 2], "age": 2}\n'
    (tmp_path / "a.jsonl").write_text(good * 50 + line + "\n" + good * 50)
    given = ["score", model, tmp_path / "a.jsonl", "-o", tmp_path / "out"]
    result = cli(*given)
    assert result.code == 1
    assert "row 50" in result.error or "line 51 " in result.error
    assert cli(*given, "--on-bad-row", "skip").code == 0
    assert scored(tmp_path / "out")["older"].to_pylist() == [3] * 100
    bad = pq.read_table(tmp_path / "out" / "_bad" / "a.parquet").to_pydict()
    assert (bad["line"], bad["onnx_sparse_row"]) == ([line], [50])


def test_bytes_that_are_no_text_are_one_bad_row(cli, model, tmp_path):
    good = b'{"items": [1], "age": 2, "uid": "u"}\n'
    (tmp_path / "a.jsonl").write_bytes(good + b'{"items": [1], "age": 2, "uid": "\xff"}\n' + good)
    (tmp_path / "b.csv").write_bytes(b"items,age,uid\n[1],2,u\n[1],2,\xff\n[1],2,u\n")
    given = ["score", model, tmp_path / "a.jsonl", tmp_path / "b.csv", "-o", tmp_path / "out", "--keep", "uid"]
    result = cli(*given, "--on-bad-row", "skip", "--json")
    assert [(file["count"], file["bad"]) for file in result.json["files"]] == [(3, 1), (3, 1)]


def test_rows_of_csv_with_other_numbers_of_cells(cli, model, tmp_path):
    (tmp_path / "a.csv").write_text('items,age\n[1],2\n"[1]"\n[1],3,4\n"[1]"x,4\n[2],5\n')
    given = ["score", model, tmp_path / "a.csv", "-o", tmp_path / "out"]
    assert "a.csv, row 1 has 1 cells; the first line has 2" in cli(*given).error
    assert cli(*given, "--on-bad-row", "skip").code == 0
    assert scored(tmp_path / "out")["older"].to_pylist() == [3, 6]
    bad = pq.read_table(tmp_path / "out" / "_bad" / "a.parquet").to_pydict()
    assert bad["age"] == [None, "3,4", None]
    (tmp_path / "a.csv").write_text('items,age\n[1],2\n"[1],3\n[1],4\n')
    assert "the quotation mark in row 1 has no end" in cli(*given, "--overwrite", "--on-bad-row", "skip").error


def test_what_separates_cells(cli, model, tmp_path):
    (tmp_path / "a.csv").write_text("items;age\n[1,2];2\n")
    (tmp_path / "b.tsv").write_text("items\tage\n[1,2]\t2\n")
    given = ["score", model, "-o", tmp_path / "out", "--json"]
    assert (
        "a.csv cannot be read: its first line has one cell; --csv-delimiter ';' would"
        in cli(*given, tmp_path / "a.csv").err
    )
    assert cli(*given, tmp_path / "a.csv", "--csv-delimiter", ";").json["rows"] == 1
    assert cli(*given, tmp_path / "b.tsv").json["rows"] == 1
    assert "is not one character" in cli(*given, tmp_path / "a.csv", "--csv-delimiter", ";;").err


def test_a_value_that_the_model_refuses_is_named(cli, save, tmp_path):
    """By its row in the file and its column, whatever the batches are."""
    columns = {"basket": [[k % 9] for k in range(100)], "age": [1.0] * 100}
    columns["basket"][73] = [1, 500]
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=30)
    for batch_rows in (1, 7, 100):
        given = ["-o", tmp_path / "out", "--columns", "items=basket", "--batch-rows", batch_rows]
        result = cli("score", save(pooling_model()), tmp_path / "a.parquet", *given)
        assert "a.parquet, row 73, column 'basket': " in result.error
        assert "= 500 is out of range [0, 9)" in result.error


def test_what_onnx_runtime_refuses_is_a_bad_row(cli, save, tmp_path):
    from onnx import parser

    gather = """<ir_version: 10, opset_import: ["" : 18]> g (int64[n] x, float[n] z) => (float[n] y)
    <float[3] table = {1, 2, 3}> { found = Gather (table, x) y = Add (found, z) }"""
    pq.write_table(pa.table({"x": [0, 7, 2], "z": pa.array([0, 0, 0], pa.float32())}), tmp_path / "a.parquet")
    given = ["score", save(parser.parse_model(gather)), tmp_path / "a.parquet", "-o", tmp_path / "out"]
    assert "a.parquet, row 1, column 'x': " in cli(*given).error
    assert cli(*given, "--on-bad-row", "skip").code == 0
    assert scored(tmp_path / "out")["y"].to_pylist() == [1, 3]


@pytest.mark.parametrize(
    ("limit", "code"),
    [("1", 3), ("2", 0), ("39%", 3), ("40%", 0), ("0", 3), ("x", 2), ("-1", 2), ("nan%", 2), ("100%", 0), ("101%", 2)],
)
def test_how_many_rows_may_be_bad(cli, model, tmp_path, limit, code):
    """Two of five are."""
    pq.write_table(bad_rows(), tmp_path / "a.parquet")
    result = cli("score", model, tmp_path / "a.parquet", "-o", tmp_path / "out", f"--max-bad-rows={limit}", "--json")
    assert result.code == code
    if code != 2:
        assert (result.json["bad"], result.json["rows"], scored(tmp_path / "out").num_rows) == (2, 5, 3)
    assert ("2 of 5 rows could not be scored, more than --max-bad-rows" in result.err) == (code == 3)


# --- Files of any length ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "jsonl", "jsonl.gz"])
def test_rows_of_any_length(cli, model, tmp_path, kind):
    """pyarrow's readers end at a block of 1 MB, and that of JSON ends the process."""
    lists = [[1], [7] * 2_000_000, [2]]
    if kind == "csv":
        text = "items,age\n" + "".join(f'"{json.dumps(ids)}",2\n' for ids in lists)
    else:
        text = "".join(json.dumps({"items": ids, "age": 2}) + "\n" for ids in lists)
    content = gzip.compress(text.encode(), 1) if kind.endswith("gz") else text.encode()
    (tmp_path / f"a.{kind}").write_bytes(content)
    assert cli("score", model, tmp_path / f"a.{kind}", "-o", tmp_path / "out").code == 0
    assert [row[0] for row in scored(tmp_path / "out")["sums"].to_pylist()] == [1, 14_000_000, 2]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b.jsonl", b""),
        ("b.jsonl", b"\n \n"),
        ("b.ndjson.gz", gzip.compress(b"", mtime=0)),
        ("b.csv", b""),
        ("b.csv", b"\n"),
        ("b.csv", b"age,items\n"),
        ("b.tsv", b"age\titems\n"),
    ],
)
def test_a_part_without_rows(cli, model, tmp_path, name, content):
    (tmp_path / "in").mkdir()
    for other in "ac":
        json_lines(rows(3).drop_columns("uid"), tmp_path / "in" / f"{other}.jsonl")
    (tmp_path / "in" / name).write_bytes(content)
    assert cli("score", model, tmp_path / "in", "-o", tmp_path / "out").code == 0
    assert scored(tmp_path / "out", "b").schema.equals(scored(tmp_path / "out", "a").schema)
    assert [scored(tmp_path / "out", name).num_rows for name in "abc"] == [3, 0, 3]


def test_a_file_that_cannot_be_read_ends_no_others(cli, model, tmp_path):
    (tmp_path / "in").mkdir()
    for name in "abcd":
        pq.write_table(rows(3), tmp_path / "in" / f"{name}.parquet")
    (tmp_path / "in" / "b.parquet").write_bytes(b"")
    (tmp_path / "in" / "c.parquet").write_bytes((tmp_path / "in" / "a.parquet").read_bytes()[:-9])
    for workers in (1, 2):
        given = ["score", model, tmp_path / "in", "-o", tmp_path / "out", "--workers", workers, "--overwrite"]
        result = cli(*given, "--json")
        assert result.code == 1
        assert "(2 files could not be read)" in result.err
        assert {os.path.basename(file["rows"]) for file in result.json["failed"]} == {"b.parquet", "c.parquet"}
        assert sorted(os.listdir(tmp_path / "out")) == ["a.parquet", "d.parquet"]


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname != "Linux", reason="names of files are text")
@pytest.mark.parametrize("write", [csv, json_lines, pq.write_table, arrow_file])
def test_names_that_are_no_text(cli, model, tmp_path, write):
    suffix = {csv: "csv", json_lines: "jsonl", arrow_file: "arrow"}.get(write, "parquet")
    folder = tmp_path / "in"
    folder.mkdir()
    write(rows(5), tmp_path / f"plain.{suffix}")
    os.rename(tmp_path / f"plain.{suffix}", os.fsencode(folder) + b"/caf\xe9." + suffix.encode())
    result = cli("score", model, folder, "-o", tmp_path / "out", "--json")
    assert (result.code, result.json["rows"]) == (0, 5)
    (name,) = os.listdir(os.fsencode(tmp_path / "out"))
    assert name == b"caf\xe9.parquet"


def test_pages_that_are_damaged(cli, model, tmp_path):
    """One bit of an id, which only the checksum of the page tells."""
    table = pa.table({"items": [[k % 9] for k in range(4000)], "age": pa.array([1.0] * 4000, pa.float32())})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 400] ^= 1
    path.write_bytes(content)
    result = cli("score", model, path, "-o", tmp_path / "out")
    assert (result.code, "a.parquet cannot be read: " in result.error) == (1, True)


@pytest.mark.parametrize(
    ("suffix", "write"), [("parquet", pq.write_table), ("arrow", arrow_file), ("csv", csv), ("jsonl", json_lines)]
)
def test_batches_of_few_bytes(cli, model, tmp_path, monkeypatch, suffix, write):
    """Long rows are read in smaller batches."""
    monkeypatch.setattr(row_files, "_MOST_BYTES", 300)
    monkeypatch.setattr(text_rows, "_PART", 300)
    write(rows(200), tmp_path / f"a.{suffix}")
    assert cli("score", model, tmp_path / f"a.{suffix}", "-o", tmp_path / "out").code == 0
    check(tmp_path / "out" / "a.parquet", rows(200))
    assert pq.ParquetFile(tmp_path / "out" / "a.parquet").num_row_groups > 5


# --- Rows that depend on each other -----------------------------------------------------------------------------------


def dependent_model() -> onnx.ModelProto:
    """Returns how far a value is from the mean of its batch."""
    from onnx import parser

    return parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]> g (float[n] x) => (float[n] y, float[n] z)
    { mean = ReduceMean <keepdims = 0> (x) y = Sub (x, mean) z = Neg (x) }""")


def test_rows_that_depend_on_others_are_refused(cli, save, tmp_path):
    pq.write_table(pa.table({"x": pa.array([1, 2, 6], pa.float32())}), tmp_path / "a.parquet")
    given = ["score", save(dependent_model()), tmp_path / "a.parquet", "-o", tmp_path / "out", "--overwrite"]
    errors = {cli(*given, "--batch-rows", size).error for size in (1, 2, 3)}
    assert len(errors) == 1
    assert "the rows of output 'y' change with the other rows of a batch" in errors.pop()
    assert not (tmp_path / "out").exists()
    assert cli(*given, "--dependent-rows", "alone").code == 0
    assert scored(tmp_path / "out")["y"].to_pylist() == [0, 0, 0]
    assert cli(*given, "--dependent-rows", "batch").code == 0
    assert scored(tmp_path / "out")["y"].to_pylist() == [-2, -1, 3]
    assert cli(*given, "--outputs", "z").code == 0  # whose rows do not


def test_resuming_compares_what_decides_the_answers(cli, model, tmp_path):
    """Each of these is another answer, or could be: all but the number of workers."""
    pq.write_table(rows(9), tmp_path / "a.parquet")
    given = ["score", model, tmp_path / "a.parquet", "-o", tmp_path / "out", "--resume", "--json"]

    def made(*more: object) -> bool:
        return bool(cli(*given, *more).json["files"])

    assert made()
    assert not made("--workers", 2)
    changes = (["--batch-rows", 5], ["--outputs", "sums"], ["--keep", "uid"], ["--dependent-rows", "alone"])
    for change in (*changes, ["--backend", "python"]):
        assert made(*change)
        assert not made(*change)
    state = os.stat(tmp_path / "a.parquet")
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    (tmp_path / "a.parquet").write_bytes(content)
    os.utime(tmp_path / "a.parquet", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert made()  # written again, with size and time as before
    (tmp_path / "other").mkdir()
    os.link(tmp_path / "a.parquet", tmp_path / "other" / "a.parquet")
    assert cli("score", model, tmp_path / "other" / "a.parquet", *given[3:]).json["files"]


def test_resuming_with_other_weights(cli, tmp_path):
    """In the file beside the model, which stays as it is."""
    import numpy as np

    path, made = tmp_path / "model.onnx", pooling_model()
    for tensor in made.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
    onnx.save(made, path, save_as_external_data=True, location="data", size_threshold=0)
    pq.write_table(rows(9), tmp_path / "a.parquet")
    given = ["score", path, tmp_path / "a.parquet", "-o", tmp_path / "out", "--resume", "--json"]
    assert len(cli(*given).json["files"]) == 1
    assert len(cli(*given).json["files"]) == 0
    before = scored(tmp_path / "out")["sums"].to_pylist()
    weights = np.fromfile(tmp_path / "data", np.float32)
    (weights * 3).tofile(tmp_path / "data")
    assert len(cli(*given).json["files"]) == 1
    after = scored(tmp_path / "out")["sums"].to_pylist()
    assert after == [[3 * value for value in row] for row in before]


def test_lines_about_what_is_done(cli, model, tmp_path, monkeypatch):
    from onnx_sparse.cli import score

    for name in "ab":
        pq.write_table(rows(30), tmp_path / f"{name}.parquet")
    given = ["score", model, tmp_path / "a.parquet", tmp_path / "b.parquet", "-o", tmp_path / "out", "--overwrite"]
    assert cli(*given).err == ""
    assert [line.rpartition("/")[2] for line in cli(*given, "-v").err.splitlines()] == [
        "a.parquet: 30 rows, 0 bad",
        "b.parquet: 30 rows, 0 bad",
    ]
    seconds = itertools.count(0, 20)
    monkeypatch.setattr(score.time, "monotonic", lambda: next(seconds))
    assert "onnx-sparse: 60 rows, 1 of 2 files done (" in cli(*given).err
    assert cli(*given, "-q").err == ""
