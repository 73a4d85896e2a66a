"""`onnx-sparse score`: rows and scores in folders, partitions and stores: a server of S3 on this machine."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402
from cli.test_score import bad_rows, expected, pooling_model, rows  # noqa: E402
from pyarrow import fs  # noqa: E402
from support.s3_server import s3_server  # noqa: E402

PATIENCE = 120
#: How often a process is killed.
KILLS = 2


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    pytest.importorskip("moto.server")
    with s3_server() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield environment


class Root:
    """A folder of this machine or of a store."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.filesystem, self.path = fs.FileSystem.from_uri(uri) if "://" in uri else (fs.LocalFileSystem(), uri)

    def write(self, name: str, table: Any) -> None:
        path = f"{self.path}/{name}"
        self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        with self.filesystem.open_output_stream(path) as file:
            if isinstance(table, bytes):
                file.write(table)
            else:
                pq.write_table(table, file)

    def read(self, name: str) -> Any:
        with self.filesystem.open_input_file(f"{self.path}/{name}") as file:
            return pq.ParquetFile(file).read()

    def files(self, below: str) -> list[str]:
        base = f"{self.path}/{below}/"
        selector = fs.FileSelector(base.rstrip("/"), recursive=True, allow_not_found=True)
        found = self.filesystem.get_file_info(selector)
        return sorted(info.path.removeprefix(base) for info in found if info.type == fs.FileType.File)

    def __truediv__(self, name: str) -> str:
        return f"{self.uri}/{name}"


@pytest.fixture(params=["local", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    if request.param == "local":
        return Root(str(tmp_path / "root"))
    request.getfixturevalue("server")
    return Root(f"s3://bucket/{tmp_path.name}")


@pytest.fixture
def model(save: Any) -> Path:
    return save(pooling_model())


def check(table: Any, given: Any) -> None:
    assert (table["sums"].to_pylist(), table["older"].to_pylist()) == expected(given)


def write_days(root: Root) -> dict[str, Any]:
    """Rows as Spark writes them, with what readers of Parquet pass over."""
    days = {"2024-01-31": rows(20, 1), "01": rows(30, 2), "__HIVE_DEFAULT_PARTITION__": rows(3, 3), "a%2Fb": rows(4, 4)}
    for day, table in days.items():
        root.write(f"rows/day={day}/part-0.c000.snappy.parquet", table)
    for name in ("_SUCCESS", "_temporary/0/day=1/part-0.parquet", ".hidden.parquet", "day=01/_metadata", "README"):
        root.write(f"rows/{name}", b"x")
    return days


@pytest.mark.parametrize(
    "given", ["rows", "rows/", "rows/**/*.parquet", "rows/day=*/part-?.c000.*", "rows/[d]*/*.parquet"]
)
def test_folders_of_partitions(cli, model, root, given):
    """They are columns of the rows, of text as in the names of the folders."""
    days = write_days(root)
    result = cli("score", model, root / given, "-o", root / "out", "--keep", "uid", "--keep", "day", "--json")
    assert (result.code, result.json["rows"]) == (0, 57)
    assert ("README" in result.err) == ("*" not in given)
    assert root.files("out") == sorted(f"day={day}/part-0.c000.parquet" for day in days)
    for day, table in days.items():
        scored = root.read(f"out/day={day}/part-0.c000.parquet")
        check(scored, table)
        text = {"__HIVE_DEFAULT_PARTITION__": None, "a%2Fb": "a/b"}.get(day, day)
        assert set(scored["day"].to_pylist()) == {text}
    assert cli("score", model, root / given, "-o", root / "out", "--keep", "uid", "--keep", "day").code == 1
    again = cli(
        "score", model, root / given, "-o", root / "out", "--keep", "uid", "--keep", "day", "--resume", "--json"
    )
    assert (again.json["files"], len(again.json["skipped"])) == ([], 4)


def test_a_feature_in_the_names_of_folders(cli, model, root):
    for age in ("7", "42.5", "old"):
        root.write(f"rows/age={age}/a.parquet", rows(3).drop_columns("age"))
    result = cli("score", model, root / "rows", "-o", root / "out", "--max-bad-rows", "3", "--json")
    assert (result.code, result.json["bad"]) == (0, 3)
    assert root.read("out/age=42.5/a.parquet")["older"].to_pylist() == [43.5] * 3
    assert "column 'age'" in root.read("out/_bad/age=old/a.parquet")["onnx_sparse_reason"][0].as_py()
    for given in ("rows/age=7/a.parquet", "rows/age=7"):  # the folders of what is named count, too
        assert cli("score", model, root / given, "-o", root / "one", "--overwrite").code == 0
        assert root.read("one/a.parquet")["older"].to_pylist() == [8.0] * 3
    both = [root / "rows/age=7", root / "rows/age=42.5/a.parquet"]
    assert cli("score", model, *both, "-o", root / "both").code == 0
    assert root.files("both") == ["age=42.5/a.parquet", "age=7/a.parquet"]


def test_one_file(cli, model, root):
    root.write("in/a.parquet", rows(9))
    root.write("in/b.parquet", rows(5))
    assert cli("score", model, root / "in/a.parquet", "-o", root / "x.parquet").code == 0
    check(root.read("x.parquet"), rows(9))
    result = cli("score", model, root / "in", "-o", root / "y.parquet")
    assert (result.code, "is one file, and there are 2 files of rows; give a folder" in result.err) == (2, True)
    assert "would be replaced by its scores" in cli("score", model, root / "x.parquet", "-o", root / "x.parquet").err


@pytest.mark.parametrize("workers", [1, 2])
def test_partitions_of_scores(cli, model, root, workers):
    """Each row is in the folder of its values, once; what a run before has left is removed."""
    table = rows(60).append_column("country", pa.array(["DE", "a b/c", None] * 20))
    root.write("in/day=1/a.parquet", table[:40])
    root.write("in/day=2/a.parquet", table[40:])
    command = ["score", model, root / "in", "-o", root / "out", "--keep", "uid", "--workers", workers, "--json"]
    by = ["--partition-by", "day", "--partition-by", "country"]
    assert cli(*command, *by).json["rows"] == 60
    names = root.files("out")
    assert {name.rpartition("/")[0] for name in names if not name.startswith("_")} == {
        f"day={day}/country={country}" for day in (1, 2) for country in ("DE", "a b%2Fc", "__HIVE_DEFAULT_PARTITION__")
    }
    found = {
        uid: name for name in names if name.endswith(".parquet") for uid in root.read(f"out/{name}")["uid"].to_pylist()
    }
    assert len(found) == 60
    for name in names:
        if "country=DE" in name:
            check(
                root.read(f"out/{name}"),
                table.filter(pa.array([uid in found and found[uid] == name for uid in table["uid"].to_pylist()])),
            )
    assert len(cli(*command, *by, "--resume").json["skipped"]) == 2
    assert cli(*command, *by).code == 1
    root.write("in/day=1/a.parquet", table[:1])
    assert len(cli(*command, *by, "--resume").json["files"]) == 1
    left = [name for name in root.files("out") if name.endswith(".parquet") and name.startswith("day=1")]
    assert [name.split("/")[1] for name in left] == ["country=DE"]


def test_nothing_of_a_file_that_fails(cli, model, root):
    root.write(
        "in/a.parquet", pa.concat_tables([rows(50).drop_columns("uid"), bad_rows()], promote_options="permissive")
    )
    for by in ([], ["--partition-by", "age"]):
        result = cli("score", model, root / "in", "-o", root / "out", "--batch-rows", 10, *by)
        assert "a.parquet: feature 'items', row 51, position 1 has no value" in result.error
        assert root.files("out") == []


def test_resuming_after_the_rows_have_changed(cli, model, root):
    """Even to as many bytes, in the same second."""
    command = ["score", model, root / "a.jsonl", "-o", root / "out", "--resume", "--json"]
    for age in (1, 2):
        root.write("a.jsonl", b'{"items": [1], "age": %d}' % age)
        assert len(cli(*command).json["files"]) == 1
        assert root.read("out/a.parquet")["older"].to_pylist() == [age + 1]
    assert cli(*command).json["files"] == []


def test_scores_inside_the_folder_of_rows_are_no_rows(cli, model, root):
    root.write("in/a.parquet", rows(9))
    command = ["score", model, root / "in", "-o", root / "in/scores", "--overwrite", "--json"]
    assert [cli(*command).json["rows"] for _ in range(2)] == [9, 9]


@pytest.mark.usefixtures("server")
def test_stores_that_do_not_answer(cli, model, tmp_path):
    pq.write_table(rows(3), tmp_path / "a.parquet")
    result = cli("score", model, tmp_path / "a.parquet", "-o", "s3://no-such-bucket/out")
    assert (result.code, "cannot write s3://no-such-bucket/out/a.parquet: " in result.error) == (1, True)
    result = cli("score", model, tmp_path / "a.parquet", "-o", "s5://bucket/out")
    assert (result.code, "s5://bucket/out: Unrecognized filesystem type" in result.err) == (2, True)
    assert (
        "s3://bucket/none/*.parquet: no such file"
        in cli("score", model, "s3://bucket/none/*.parquet", "-o", tmp_path).error
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kills processes")
def test_killed_writers_of_a_store(model, tmp_path, server):
    """What is there is whole at any time, and the next run makes the rest."""
    root = Root(f"s3://bucket/{tmp_path.name}")
    tables = [rows(3000, number) for number in range(8)]
    for number, table in enumerate(tables):
        root.write(f"in/{number}.parquet", table)

    def run(out: str) -> subprocess.Popen[bytes]:
        given = ["score", str(model), root / "in", "-o", root / out, "--batch-rows", "50", "--resume", "--workers", "2"]
        command = [sys.executable, "-m", "onnx_sparse", *given]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)

    begun = time.monotonic()
    assert run("right").wait(PATIENCE) == 0
    seconds = time.monotonic() - begun
    right = {name: root.read(f"right/{name}") for name in root.files("right")}
    source = random.Random(0)
    for _ in range(KILLS):
        process = run("out")
        time.sleep(source.uniform(0.3, 1) * seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        there = root.files("out")
        assert all(root.read(f"out/{name}").equals(right[name]) for name in there)
        for name in there:
            if source.random() < 0.7:
                root.filesystem.delete_file(f"{root.path}/out/{name}")
    assert run("out").wait(PATIENCE) == 0
    assert {name: root.read(f"out/{name}") for name in root.files("out")} == right
