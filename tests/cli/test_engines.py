"""`onnx-sparse score --engine`: Ray and Spark write the files that the local engine writes, whatever dies meanwhile.

Each run is a process of its own, as on a command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from support.program import without_progress

import onnx_sparse

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402
from cli.test_score import bad_rows, pooling_model, rows  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="who writes a file is read from /proc"),
]

PATIENCE = 240


@pytest.fixture(params=[("ray", "ray"), ("spark", "pyspark")], ids=["ray", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    name, package = request.param
    pytest.importorskip(package)
    return str(name)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, files of rows, and what the local engine makes of them."""
    folder = tmp_path_factory.mktemp("engines")
    onnx.save(pooling_model(), folder / "model.onnx")
    (folder / "in").mkdir()
    for number in range(4):
        pq.write_table(rows(6000, number), folder / "in" / f"{number}.parquet")
    status, _, err = ended(score(folder, "local", "right"))
    assert status == 0, err
    return folder


def score(home: Path, engine: str, out: str, *arguments: str, model: str = "model.onnx") -> subprocess.Popen[str]:
    """A process that scores the files in small batches, so that there is time to disturb it."""
    given = [model, "in", "-o", out, "--keep", "uid", "--batch-rows", "20", "--workers", "2", "-q", *arguments]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "onnx_sparse", "score", *given, "--engine", engine],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, without_progress(err)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def writers(folder: Path) -> dict[int, str]:
    """The processes that are writing files in a folder."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for link in (process / "fd").iterdir():
                target = os.readlink(link)
                if target.startswith(f"{folder}/") and target.endswith(".part"):
                    found[int(process.name)] = target
    return found


def writing(process: subprocess.Popen[str], folder: Path) -> Iterator[dict[int, str]]:
    """The writers of a folder, each time that there are any, until the process ends."""
    begun = time.monotonic()
    while process.poll() is None:
        assert time.monotonic() - begun < PATIENCE
        if found := writers(folder):
            yield found
        time.sleep(0.02)


def test_the_same_bytes(home: Path, engine: str) -> None:
    status, out, err = ended(score(home, engine, engine, "--json"))
    assert (status, err) == (0, "")
    assert json.loads(out)["rows"] == 24_000
    assert content(home / engine) == content(home / "right")


def test_resuming(home: Path, engine: str) -> None:
    """What is there is left, also where all is there."""
    made = home / f"{engine}-resumed"
    assert ended(score(home, "local", made.name))[0] == 0
    (made / "2.parquet").unlink()
    for missing in (1, 0):
        status, out, err = ended(score(home, engine, made.name, "--resume", "--json"))
        assert (status, err) == (0, "")
        assert (len(json.loads(out)["files"]), len(json.loads(out)["skipped"])) == (missing, 4 - missing)
        assert content(made) == content(home / "right")


def test_a_bad_row_is_one_line(home: Path, engine: str, tmp_path: Path) -> None:
    before = rows(50).drop_columns("uid")
    pq.write_table(pa.concat_tables([before, bad_rows()], promote_options="permissive"), tmp_path / "bad.parquet")
    given = [str(tmp_path / "bad.parquet"), "--keep", "age"]
    errors = [ended(bad_run(home, name, *given)) for name in ("local", engine)]
    assert errors[1] == errors[0]
    status, out, err = errors[1]
    assert (status, out) == (1, "")
    assert err == f"onnx-sparse: error: {given[0]}: feature 'items', row 51, position 1 has no value\n"
    assert os.listdir(home / "bad") == []


def bad_run(home: Path, engine: str, *given: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "onnx_sparse", "score", "model.onnx", *given, "-o", "bad"]
    return subprocess.Popen(
        [*command, "--engine", engine], cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_bad_rows_are_skipped(home: Path, engine: str, tmp_path: Path) -> None:
    pq.write_table(bad_rows(), tmp_path / "bad.parquet")
    made = []
    for name in ("local", engine):
        given = [str(tmp_path / "bad.parquet"), "--on-bad-row", "skip", "--overwrite"]
        status, out, err = ended(bad_run(home, name, *given))
        assert (status, err) == (0, "")
        assert "2 rows could not be scored" in out
        made.append(content(home / "bad"))
    assert made[0] == made[1]
    assert set(made[0]) == {"bad.parquet", "_bad/bad.parquet"}
    for path in (home / "bad" / "_bad" / "bad.parquet", home / "bad" / "bad.parquet"):
        path.unlink()
    (home / "bad" / "_bad").rmdir()


def test_a_killed_worker_loses_nothing_and_doubles_nothing(home: Path, engine: str) -> None:
    made = home / f"{engine}-killed"
    process = score(home, engine, made.name)
    killed: dict[int, str] = {}
    for found in writing(process, made):
        pid, part = next(iter(found.items()))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        killed[pid] = part
        if len(killed) == 2:
            break
        time.sleep(0.5)
    status, _, err = ended(process)
    assert (status, err) == (0, "")
    assert len(killed) == 2
    assert content(made) == content(home / "right")


def test_a_file_that_ends_every_worker_is_one_line(home: Path, engine: str) -> None:
    made = home / f"{engine}-deadly"
    process = score(home, engine, made.name)
    for found in writing(process, made):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    status, _, err = ended(process)
    assert status == 1
    assert err.startswith("onnx-sparse: error: a worker was ended (is there enough memory?)")
    assert err.count("\n") == 1
    assert not [name for name in content(made) if name.endswith(".part")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_no_litter(home: Path, engine: str, number: signal.Signals) -> None:
    """Neither files nor processes; what a terminal sends goes to the whole group."""
    made = home / f"{engine}-{number.name}"
    process = score(home, engine, made.name)
    next(writing(process, made))
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    status, _, err = ended(process)
    assert status == 128 + number
    assert err in ("onnx-sparse: interrupted\n", "onnx-sparse: ended by SIGTERM\n")
    assert set(content(made)) <= set(content(home / "right"))


def test_a_model_that_is_split(home: Path, engine: str) -> None:
    """Ray's workers ask actors; Spark's have all shards, from the same folder."""
    split, made = home / f"split-{engine}", home / f"{engine}-split"
    onnx_sparse.shard(home / "model.onnx", split, shards=2, exact=True, at_least=1)
    status, _, err = ended(score(home, engine, made.name, model=split.name))
    assert (status, err) == (0, "")
    scores = [{n: pq.read_table(path / n) for n in content(path)} for path in (made, home / "right")]
    assert scores[0] == scores[1]


def test_resuming_after_the_command_was_killed(home: Path, engine: str) -> None:
    made = home / f"{engine}-command"
    process = score(home, engine, made.name)
    next(writing(process, made))
    process.kill()
    ended(process)
    status, _, err = ended(score(home, engine, made.name, "--resume"))
    assert (status, err) == (0, "")
    assert content(made) == content(home / "right")


_SCORER = """
import pyarrow.parquet as pq
from onnx_sparse.arrow import Scorer
scorer = Scorer("model.onnx", keep=["uid"])
"""
_IN_RAY = """
import ray
ray.init("local", num_cpus=2, log_to_driver=False)  # not a cluster that this machine knows of
data = ray.data.read_parquet("in/").map_batches(scorer, batch_format="pyarrow", num_cpus=0.5)
data.write_parquet("scored-by-ray")
"""
_IN_SPARK = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
rows = spark.read.parquet("in/")
scored = rows.mapInArrow(scorer.map_in_arrow, "uid string, sums array<float>, older float")
scored.write.parquet("scored-by-spark")
"""


def test_the_scorer_by_itself(home: Path, engine: str) -> None:
    """As the guide shows it."""
    program = _SCORER + (_IN_RAY if engine == "ray" else _IN_SPARK)
    subprocess.run([sys.executable, "-P", "-c", program], cwd=home, check=True, timeout=PATIENCE, capture_output=True)

    def scored(name: str) -> list[tuple[Any, ...]]:
        table = pa.concat_tables(pq.read_table(path) for path in sorted((home / name).glob("*.parquet")))
        return sorted(zip(*(table[column].to_pylist() for column in ("uid", "older", "sums")), strict=True))

    assert scored(f"scored-by-{engine}") == scored("right")
