"""`onnx-sparse score`: files of rows in, Parquet files of scores out, whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from onnx_sparse.installation import install_command

pa = pytest.importorskip("pyarrow")

import pyarrow.csv  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import onnx_sparse  # noqa: E402
from onnx_sparse.schemas.features import Feature, write_features  # noqa: E402


def pooling_model() -> onnx.ModelProto:
    """Sums of looked-up rows for a ragged feature, and a dense one plus one."""
    text = """
    <ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g (int64[n] items_v, int64[r] items_r, float[b] age) => (float[b,2] sums, float[b] older)
      <float[9,2] table = {0,0, 1,10, 2,20, 3,30, 4,40, 5,50, 6,60, 7,70, 8,80}, float one = {1}>
    {
      sums = onnx_sparse.EmbeddingBagOffsetsSum <include_last_offset = "true"> (table, items_v, items_r)
      older = Add (age, one)
    }"""
    made = onnx_sparse.canonicalize(onnx.parser.parse_model(text))
    items = Feature("items", "ragged", {"values": "items_v", "row_splits": "items_r"})
    write_features(made, [items, Feature("age", "dense", {"values": "age"})])
    return made


def price_model() -> onnx.ModelProto:
    """Parses messages; returns the price of each."""
    from cli.test_messages import parsing_model

    made = parsing_model()
    del made.graph.output[:]
    made.graph.node.add(op_type="Identity", input=["prices"], output=["price"])
    made.graph.output.append(onnx.helper.make_tensor_value_info("price", 1, ["n"]))
    write_features(made, [Feature("examples", "example", {"serialized": "examples"})])
    return made


def price_message(price: float) -> bytes:
    """A serialized tf.Example with a price."""
    return b"\n\x13\n\x11\n\x05price\x12\x08\x12\x06\n\x04" + np.float32(price).tobytes()


@pytest.fixture
def model(save):
    return save(pooling_model())


def rows(count: int, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    lists = [random.integers(0, 9, random.integers(0, 5)).tolist() for _ in range(count)]
    return pa.table(
        {
            "items": pa.array(lists, pa.list_(pa.int64())),
            "age": pa.array(random.integers(0, 99, count).astype(np.float32)),
            "uid": pa.array([f"u{k}" for k in range(count)]),
        }
    )


def expected(table: Any) -> tuple[list[list[float]], list[float]]:
    sums = [[float(sum(ids or [])), 10.0 * sum(ids or [])] for ids in table["items"].to_pylist()]
    return sums, [age + 1 for age in table["age"].to_pylist()]


def check(path: Path, table: Any) -> None:
    scored = pq.read_table(path)
    assert (scored["sums"].to_pylist(), scored["older"].to_pylist()) == expected(table)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def test_parquet_files(cli, model, folder, tmp_path):
    tables = [rows(count, seed) for seed, count in enumerate((70, 0, 5))]
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=30)
    result = cli("score", model, folder, "-o", tmp_path / "out", "--keep", "uid", "--batch-rows", 7, "--json")
    assert result.json["rows"] == 75
    assert result.json["bad"] == 0
    for number, table in enumerate(tables):
        check(tmp_path / "out" / f"{number}.parquet", table)
        assert pq.read_table(tmp_path / "out" / f"{number}.parquet")["uid"].to_pylist() == table["uid"].to_pylist()
    assert sorted(os.listdir(tmp_path / "out")) == ["0.parquet", "1.parquet", "2.parquet"]


def test_several_workers(cli, model, folder, tmp_path):
    tables = [rows(40, seed) for seed in range(4)]
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")
    result = cli("score", model, f"{folder}/*.parquet", "-o", tmp_path / "out", "--workers", 2)
    assert "160 rows in" in result.out
    for number, table in enumerate(tables):
        check(tmp_path / "out" / f"{number}.parquet", table)


def arrow_file(table: Any, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=9)


def arrow_stream(table: Any, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def csv(table: Any, path: Path) -> None:
    lists = pa.array([json.dumps(ids) if ids else "" for ids in table["items"].to_pylist()])
    pyarrow.csv.write_csv(table.set_column(0, "items", lists), path)


def json_lines(table: Any, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def test_workers_import_no_commands_and_no_python_kernels():
    """Each worker imports what scoring needs, as often as there are workers."""
    program = "import sys, onnx_sparse.scoring.local_engine; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "onnx_sparse.sessions.runtime" in imported
    assert not imported & {"onnx_sparse.reference", "onnx_sparse.python.kernels", "rich"}
    assert not [name for name in imported if name.startswith(("onnx_sparse.cli", "onnx_sparse.commands"))]


@pytest.mark.parametrize(
    ("name", "write"),
    [("a.arrow", arrow_file), ("a.feather", arrow_stream), ("a.csv", csv), ("a.jsonl", json_lines)],
)
def test_other_files(cli, model, tmp_path, name, write):
    table = rows(50)
    write(table, tmp_path / name)
    assert cli("score", model, tmp_path / name, "-o", tmp_path / "out", "--batch-rows", 20).code == 0
    check(tmp_path / "out" / "a.parquet", table)


def test_tfrecord_files(cli, save, tmp_path):
    from cli.test_messages import framed

    (tmp_path / "a.tfrecord").write_bytes(framed(*map(price_message, range(5))))
    result = cli("score", save(price_model()), tmp_path / "a.tfrecord", "-o", tmp_path / "out")
    if "native" in onnx_sparse.sessions.runtime.available_backends():
        assert result.code == 0, result.err
        assert pq.read_table(tmp_path / "out" / "a.parquet")["price"].to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"price": 1}'),
        ("a.ndjson", '{"examples": "abc"}'),
        ("a.jsonl", '{"examples": {"price": 1}}'),
        ("a.csv", "price\n1"),
        ("a.csv", "examples\nabc"),
        ("a.tsv", "examples\tprice\nabc\t1"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--on-bad-row", "skip"], ["--keep", "price"]])
def test_files_of_text_hold_no_messages(cli, save, tmp_path, name, text, more):
    """A model that parses tf.Example messages, and the rows as text: said so, whatever columns there are."""
    (tmp_path / name).write_text(text)
    result = cli("score", save(price_model()), tmp_path / name, "-o", tmp_path / "out.csv", *more)
    assert result.code == 1
    assert f"{name}: column 'examples' is serialized messages, which text does not hold; give a TFRecord" in result.err
    assert not (tmp_path / "out.csv").exists()


def bad_rows() -> Any:
    return pa.table({"items": [[1], [2, None], [3], [9], []], "age": [1.0, 2.0, 3.0, 4.0, 5.0]})


def test_a_bad_row_is_an_error(cli, model, tmp_path):
    pq.write_table(
        pa.concat_tables([rows(30).drop_columns("uid"), bad_rows()], promote_options="permissive"),
        tmp_path / "a.parquet",
    )
    result = cli("score", model, tmp_path / "a.parquet", "-o", tmp_path / "out", "--batch-rows", 8)
    assert result.code == 1
    assert "a.parquet: feature 'items', row 31, position 1 has no value" in result.error
    assert not (tmp_path / "out").exists()


def test_bad_rows_are_skipped(cli, model, tmp_path):
    """One has a null, one an id that the table does not have, which only the operator notices."""
    pq.write_table(bad_rows(), tmp_path / "a.parquet")
    given = ["score", model, tmp_path / "a.parquet", "-o", tmp_path / "out", "--on-bad-row", "skip"]
    result = cli(*given)
    assert "2 rows could not be scored" in result.out
    assert pq.read_table(tmp_path / "out" / "a.parquet")["older"].to_pylist() == [2, 4, 6]
    bad = pq.read_table(tmp_path / "out" / "_bad" / "a.parquet")
    assert bad["items"].to_pylist() == [[2, None], [9]]
    assert "has no value" in bad["onnx_sparse_reason"][0].as_py()
    assert "indices[0] = 9 is out of range [0, 9)" in bad["onnx_sparse_reason"][1].as_py()
    pq.write_table(bad_rows()[:1], tmp_path / "a.parquet")
    assert cli(*given, "--overwrite").code == 0
    assert os.listdir(tmp_path / "out" / "_bad") == []


def test_bad_cells_of_csv_are_skipped(cli, model, tmp_path):
    """The rows beside them are scored, whatever pyarrow would make of their column."""
    cells = ["[1],2", "5 7,3", "[2],old", "[3],4", f"[{10**30}],5", "[4],"]
    (tmp_path / "a.csv").write_text("\n".join(["items,age", *cells, ""]))
    result = cli("score", model, tmp_path / "a.csv", "-o", tmp_path / "out", "--on-bad-row", "skip", "--keep", "age")
    assert "4 rows could not be scored" in result.out
    scores = pq.read_table(tmp_path / "out" / "a.parquet")
    assert (scores["age"].to_pylist(), scores["older"].to_pylist()) == ([2, 4], [3, 5])
    bad = pq.read_table(tmp_path / "out" / "_bad" / "a.parquet")
    places = [reason.as_py().split(":")[0] for reason in bad["onnx_sparse_reason"]]
    assert bad["items"].to_pylist() == ["5 7", "[2]", f"[{10**30}]", "[4]"]
    assert places[:3] == ["column 'items', row 1", "column 'age', row 2", "column 'items', row 4, position 0"]


def test_csv_has_the_types_of_the_model(cli, model, tmp_path):
    """Not those that its first rows seem to have; and a header alone has no rows."""
    numbers = "".join(f"[1],{number},{number}\n" for number in range(200_000))
    (tmp_path / "long.csv").write_text(f"items,age,unused\n{numbers}[2],0.5,text\n")
    (tmp_path / "none.csv").write_text("items,age\n")
    (tmp_path / "latin.csv").write_bytes("items,age,unused\n[1],2,\u00e9\n".encode("latin-1"))
    files = [tmp_path / f"{name}.csv" for name in ("long", "none", "latin")]
    assert cli("score", model, *files, "-o", tmp_path / "out").code == 0
    assert pq.read_table(tmp_path / "out" / "long.parquet")["older"][-1].as_py() == 1.5
    assert pq.read_table(tmp_path / "out" / "none.parquet").num_rows == 0


def test_texts_and_vectors_in_csv(cli, save, tmp_path):
    kinds = save(
        parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
        g (string[n] zip, float[n, 2] point) => (string[n] code, float[n, 2] twice)
        { code = Identity (zip) twice = Add (point, point) }""")
    )
    (tmp_path / "kinds.csv").write_text('zip,point\n00701,"[1, 2.5]"\n 10001,"[3, 4]"\n')
    assert cli("score", kinds, tmp_path / "kinds.csv", "-o", tmp_path / "out").code == 0
    scores = pq.read_table(tmp_path / "out" / "kinds.parquet")
    assert scores.to_pydict() == {"code": ["00701", " 10001"], "twice": [[2, 5], [6, 8]]}


@pytest.mark.parametrize("others", [[], ["of_another.parquet"]])
def test_bad_rows_that_cannot_be_written(cli, model, tmp_path, others):
    """Parquet has no intervals; a folder for bad rows that would be empty is not left."""
    table = pa.table({"items": pa.array([[None]] * 3, pa.list_(pa.int64())), "age": AGES, "u": INTERVALS})
    with pa.OSFile(str(tmp_path / "a.feather"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "out" / "_bad").mkdir(parents=True)
    for name in others:
        (tmp_path / "out" / "_bad" / name).touch()
    given = ["score", model, tmp_path / "a.feather", "-o", tmp_path / "out"]
    result = cli(*given, "--on-bad-row", "skip")
    assert (result.code, "its rows that could not be scored cannot be written" in result.error) == (1, True)
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == others
    assert (tmp_path / "out" / "_bad").exists() == bool(others)


def test_resuming(cli, model, folder, tmp_path):
    """What was made from the same is left; what was made from other rows, or another model, is made again."""
    for number in range(3):
        pq.write_table(rows(20, number), folder / f"{number}.parquet")
    given = ["score", model, folder, "-o", tmp_path / "out"]
    assert cli(*given).code == 0
    assert "is there already" in cli(*given).error
    (tmp_path / "out" / "1.parquet").unlink()
    result = cli(*given, "--resume", "--json").json
    assert [Path(file["scores"]).name for file in result["files"]] == ["1.parquet"]
    assert len(result["skipped"]) == 2
    for workers in (1, 2):
        result = cli(*given, "--resume", "--workers", workers, "--json").json
        assert (len(result["files"]), len(result["skipped"])) == (0, 3)
    pq.write_table(rows(21, 7), folder / "2.parquet")
    result = cli(*given, "--resume", "--json").json
    assert [Path(file["scores"]).name for file in result["files"]] == ["2.parquet"]
    check(tmp_path / "out" / "2.parquet", rows(21, 7))
    assert len(cli(*given, "--resume", "--keep", "uid", "--json").json["files"]) == 3


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["nothing.parquet"], 1, "nothing.parquet: no such file"),
        (["rows.parquet", "--columns", "items"], 2, "--columns 'items' is not FEATURE=COLUMN"),
        (["rows.parquet", "--columns", "items=a", "--columns", "items=b"], 2, "--columns items is given twice"),
        (["rows.parquet", "--columns", "thing=items"], 2, "the model has no feature thing; it has items, age"),
        (["rows.parquet", "--columns", "items=basket"], 1, "no column 'basket'; columns are 'items', 'age', 'uid'"),
        (["rows.parquet", "--keep", "user"], 1, "no column 'user' to keep"),
        (
            ["rows.parquet", "--outputs", "sum"],
            1,
            "the model has no output 'sum' (did you mean 'sums'?); it has 'sums', 'older'",
        ),
        (["rows.csv", "-o", "rows.txt"], 1, "cannot write rows.txt: it is not a folder"),
        (["rows.txt"], 1, "rows.txt: expected a name that ends in .parquet, .arrow"),
        (["damaged.parquet"], 1, "damaged.parquet cannot be read"),
        (["rows.parquet", "more/rows.csv"], 2, "would both become"),
        (["rows.csv"], 1, "rows.csv, column 'items', row 1: expected a list, as [5, 7] in JSON, got '5 7'"),
        (["texts.csv"], 1, "texts.csv, column 'age', row 1: 'old' does not fit into float"),
        (["null.jsonl"], 1, "null.jsonl, line 2 is not a JSON object"),
        (["deep.jsonl"], 1, "deep.jsonl, line 1 is nested too deeply"),
        (["large.csv"], 1, "large.csv, column 'items', row 0, position 0: "),
        (["surrogate.csv"], 1, "surrogate.csv, column 'items', row 0, position 0: "),
        (["twice.csv"], 1, "feature 'items': no column 'items'; there are several"),
        (["rows.tfrecord"], 1, "the model takes no serialized messages"),
        (["rows.parquet", "--workers", "0"], 2, "0 is not positive"),
        (["rows.parquet", "--workers", "x"], 2, "--workers: 'x' is not a whole number"),
    ],
)
def test_what_cannot_be_scored(cli, model, tmp_path, monkeypatch, arguments, code, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more").mkdir()
    pq.write_table(rows(3), "rows.parquet")
    Path("rows.txt").write_text("")
    Path("rows.tfrecord").write_text("")
    Path("damaged.parquet").write_bytes(Path("rows.parquet").read_bytes()[:-50])
    Path("rows.csv").write_text('items,age\n"[1]",2\n5 7,3\n')
    Path("texts.csv").write_text("items,age\n[1],2\n[1],old\n")
    Path("null.jsonl").write_text('{"items": [1], "age": 2}\nnull\n')
    Path("deep.jsonl").write_text('{"items": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    Path("large.csv").write_text(f'items,age\n"[{10**30}]",2\n')
    Path("surrogate.csv").write_text('items,age\n"[""\\ud800""]",2\n')
    Path("twice.csv").write_text("items,age,items\n[1],2,[3]\n")
    Path("more/rows.csv").write_text("items,age\n")
    result = cli("score", model, "-o", "out", *arguments)
    assert result.code == code
    assert reason in result.err
    assert not Path("out").exists() or os.listdir("out") == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing.onnx", "nothing.onnx: no such file"),
        ("folder", "folder is a directory, not an ONNX file"),
        ("empty.onnx", "empty.onnx is not an ONNX model: it has no graph"),
        ("cut.onnx", "cut.onnx is not an ONNX model, or truncated"),
        ("unknown.onnx", "domain onnx_sparse has no operator EmbeddingBagOffsetsSums; did you mean"),
        ("other.onnx", "other.onnx does not load: Fatal error: com.acme:Foo(-1) is not a registered function/op"),
    ],
)
def test_what_is_no_model(cli, tmp_path, monkeypatch, name, reason):
    """It is refused as by other commands, before anything is made."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("empty.onnx").touch()
    content = pooling_model().SerializeToString()
    Path("cut.onnx").write_bytes(content[:-20])
    unknown = pooling_model()
    unknown.graph.node[-2].op_type += "s"
    onnx.save(unknown, "unknown.onnx")
    other = pooling_model()
    other.opset_import.add(domain="com.acme", version=1)
    other.graph.node[-1].domain, other.graph.node[-1].op_type = "com.acme", "Foo"
    onnx.save(other, "other.onnx")
    pq.write_table(rows(3), "rows.parquet")
    result = cli("score", name, "rows.parquet", "-o", "out")
    assert result.code == 1
    assert reason in result.error
    assert not Path("out").exists() or os.listdir("out") == []


def ids(*values: Any, kind: Any = None) -> Any:
    return pa.array([list(values)] * 3, pa.list_(kind or pa.int64()))


AGES = pa.array([1.0, 2.0, 3.0])
INTERVALS = pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval())


@pytest.mark.parametrize("skip", [[], ["--on-bad-row", "skip"]], ids=["fail", "skip"])
@pytest.mark.parametrize(
    ("columns", "keep", "reason"),
    [
        ([("items", ids(1)), ("age", pa.nulls(3))], [], "row 0 has no value"),
        ([("items", ids(1))], [], "no column 'age'; columns are 'items'"),
        ([("items", ids(1)), ("age", AGES), ("items", ids(1))], [], "no column 'items'; there are several"),
        ([("items", ids(1)), ("age", AGES), ("u", AGES), ("u", AGES)], ["u"], "'u' to keep; there are several"),
        (
            [("items", ids({"a": 1}, kind=pa.struct({"a": pa.int8()}))), ("age", AGES)],
            [],
            "numbers or strings expected",
        ),
        ([("items", ids(1)), ("age", ids(1))], [], "expects [?]"),
        ([("items", ids(1)), ("age", AGES), ("u", INTERVALS)], ["u"], "its scores cannot be written: Unhandled type"),
    ],
)
def test_columns_that_no_row_could_fit(cli, model, tmp_path, columns, keep, reason, skip):
    arrow_file(pa.Table.from_arrays([c for _, c in columns], [name for name, _ in columns]), tmp_path / "a.arrow")
    kept = [word for name in keep for word in ("--keep", name)]
    result = cli("score", model, tmp_path / "a.arrow", "-o", tmp_path / "out", *kept, *skip)
    if skip and reason == "row 0 has no value":
        assert result.code == 0
        assert pq.read_metadata(tmp_path / "out" / "_bad" / "a.parquet").num_rows == 3
        return
    assert result.code == 1
    assert reason in result.error
    assert not (tmp_path / "out").exists()


def test_damaged_arrow_files(cli, model, tmp_path):
    """Offsets and lengths are read from the file, and would lead beyond its end."""
    path = tmp_path / "a.arrow"
    arrow_file(rows(9), path)
    whole, outcomes = path.read_bytes(), set()
    for at in range(8, len(whole), 24):
        path.write_bytes(whole[:at] + b"\x7f\xff\xff\x7f" + whole[at + 4 :])
        result = cli("score", model, path, "-o", tmp_path / "out", "--overwrite")
        outcomes.add(result.code)
        assert result.code == 0 or "unexpected" not in result.error
    assert outcomes == {0, 1}


def test_scores_do_not_replace_the_rows(cli, model, folder):
    pq.write_table(rows(3), folder / "a.parquet")
    result = cli("score", model, folder, "-o", folder)
    assert result.code == 2
    assert "would be replaced by its scores" in result.err


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork")
def test_a_death_of_the_process_is_reported(model, folder, tmp_path):
    """A library that reads the rows ends it, in the second file."""
    for number in range(2):
        pq.write_table(rows(40), folder / f"{number}.parquet")
    program = f"""
import contextlib, os, sys
from onnx_sparse.cli import main, score
@contextlib.contextmanager
def dying(sources, *, quiet):
    yield lambda rows: rows > 40 and os.abort()
score._progress = dying
sys.argv[1:] = ["score", {str(model)!r}, {str(folder)!r}, "-o", {str(tmp_path / "out")!r}]
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "onnx-sparse: error: the process was ended by SIGABRT while scoring, 1 of 2 files done; "
        "complete files are kept; --resume continues\n"
    )
    check(tmp_path / "out" / "0.parquet", rows(40))
    assert not (tmp_path / "out" / "1.parquet").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("workers", [1, 2])
def test_progress_on_a_terminal(model, folder, tmp_path, workers):
    for number in range(2):
        pq.write_table(rows(40), folder / f"{number}.parquet")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "onnx_sparse", "score", model, folder, "-o", tmp_path, "--workers", str(workers)]
    with ThreadPoolExecutor(1) as reader:  # a terminal that nobody reads takes 4 KB, and then waits
        drawn = reader.submit(_everything, ours)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, text=True, timeout=60)
        os.close(theirs)
        shown = drawn.result().decode()
    os.close(ours)
    assert (done.returncode, "80 rows in" in done.stdout) == (0, True), shown
    assert "80 rows  " in shown


def _everything(terminal: int) -> bytes:
    """What is written to a pseudo-terminal until all its writers have closed it."""
    read = bytearray()
    with contextlib.suppress(OSError):  # how Linux says that there are none left
        while part := os.read(terminal, 1 << 16):
            read += part
    return bytes(read)


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("spark", "pyspark")])
def test_engines_that_are_not_installed(cli, model, folder, tmp_path, monkeypatch, engine, package):
    pq.write_table(rows(3), folder / "a.parquet")
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"onnx_sparse.scoring.{engine}_engine", raising=False)
    result = cli("score", model, folder, "-o", tmp_path / "out", "--engine", engine)
    assert result.code == 1
    assert result.error == f"--engine {engine} needs {package}: {install_command(engine)}"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "message",
    [
        "\x1b[36mray::_task()\x1b[39m (pid=1, ip=1.2.3.4)\n"
        "  File 'a.py', line 1\nModuleNotFoundError: No module named 'a'",
        "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
        "  File 'a.py', line 1\nModuleNotFoundError: No module named 'a'\n\n\tat org.apache.A\n\nDriver stacktrace:",
        "ModuleNotFoundError: No module named 'a'\n\tat org.apache.A",
    ],
    ids=["ray", "spark", "java"],
)
def test_the_gist_of_what_engines_say(message):
    from onnx_sparse.scoring.remote_engine import gist

    assert gist(message) == "ModuleNotFoundError: No module named 'a'"


@pytest.mark.parametrize("suffix", [".tsv", ".ARROW", ".npz", ".csv.gz", ".parquet.zip"])
def test_names_of_other_formats_do_not_become_folders(cli, model, tmp_path, suffix):
    """But a folder that is there, or is named with a slash, is one."""
    pq.write_table(rows(3), tmp_path / "a.parquet")
    out = tmp_path / f"scores{suffix}"
    result = cli("score", model, tmp_path / "a.parquet", "-o", out)
    assert (result.code, out.exists()) == (2, False)
    assert "scores.parquet for one file" in result.error
    assert cli("score", model, tmp_path / "a.parquet", "-o", f"{out}/").code == 0
    assert cli("score", model, tmp_path / "a.parquet", "-o", out, "--overwrite").code == 0
    assert (out / "a.parquet").exists()
