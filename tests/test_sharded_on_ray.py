"""`onnx_sparse.ray.ShardedModel`: no wrong answer and no lost call, whatever dies or is replaced meanwhile."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnx_sparse
from onnx_sparse.errors import CommandError
from onnx_sparse.sharding.manifest import read_manifest

ray = pytest.importorskip("ray")

from pyarrow import fs  # noqa: E402

from onnx_sparse.ray import ShardedModel, fetched  # noqa: E402
from onnx_sparse.scoring.ray_start import started  # noqa: E402

pytestmark = pytest.mark.slow

SHARDS, ROWS, WIDTH, KILLS = 3, 1000, 16, 20
PATIENCE = 120


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with started(2):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions of a model, split exactly: the tables of the second are others."""
    made = tmp_path_factory.mktemp("sharded")
    node = helper.make_node
    nodes = [
        node("EmbeddingBagOffsetsMean", ["items", "ids", "offsets"], ["mean"], domain="onnx_sparse"),
        node("EmbeddingBagOffsetsSum", ["pages", "ids", "offsets"], ["sum"], domain="onnx_sparse"),
        node("Concat", ["mean", "sum"], ["y"], axis=1),
    ]
    value = helper.make_tensor_value_info
    inputs = [value(name, onnx.TensorProto.INT64, [name[0]]) for name in ("ids", "offsets")]
    outputs = [value("y", onnx.TensorProto.FLOAT, ["o", 2 * WIDTH])]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    for version in (1, 2):
        rng = np.random.default_rng(version)
        tables = [
            numpy_helper.from_array(rng.standard_normal((ROWS, WIDTH)).astype(np.float32), name)
            for name in ("items", "pages")
        ]
        graph = helper.make_graph(nodes, "g", inputs, outputs, tables)
        path = made / f"{version}.onnx"
        onnx.save(onnx_sparse.canonicalize(helper.make_model(graph, opset_imports=imports, ir_version=10)), path)
        onnx_sparse.shard(path, made / f"split{version}", shards=SHARDS, exact=True, at_least=1)
    return made


def batches() -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    return [
        {"ids": rng.integers(0, ROWS, 30), "offsets": np.sort(np.append(0, rng.integers(0, 30, 8)))} for _ in range(20)
    ]


def answers(folder: Path, version: int) -> list[Any]:
    session = onnx_sparse.InferenceSession(folder / f"{version}.onnx")
    return [session.run(None, feeds)[0] for feeds in batches()]


@contextlib.contextmanager
def opened(folder: Path, **options: Any) -> Iterator[ShardedModel]:
    with ShardedModel(folder / "split1", cpus=0, threads=1, timeout=PATIENCE, **options) as model:
        yield model


class Load:
    """Threads that call a model until they are told to end; each answer is checked."""

    def __init__(self, model: ShardedModel, check: Callable[[int, Any], object]) -> None:
        self.calls, self.wrong = 0, list[object]()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(model, check, seed)) for seed in range(3)]

    def _call(self, model: ShardedModel, check: Callable[[int, Any], object], seed: int) -> None:
        rng, made = np.random.default_rng(seed), batches()
        while not self._stop.is_set():
            number = int(rng.integers(len(made)))
            try:
                fault = check(number, model.run(None, made[number])[0])
            except Exception as error:  # any is a lost call
                fault = error
            self.calls += 1
            if fault is not None:
                self.wrong.append(fault)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more: int) -> None:
        until, deadline = self.calls + more, time.monotonic() + PATIENCE
        while self.calls < until and not self.wrong:
            assert time.monotonic() < deadline, "no call has ended"
            time.sleep(0.01)


def process_of(actor: Any) -> int:
    return int(ray.get(actor.process.remote()))


def test_actors_that_are_killed_under_load(folder: Path) -> None:
    right = answers(folder, 1)

    def check(number: int, got: Any) -> object:
        return None if np.array_equal(got, right[number]) else f"batch {number} is wrong"

    with opened(folder) as model, Load(model, check) as load:
        for kill in range(KILLS):
            actor = model._links[kill % SHARDS][0].actor
            if kill % 2:
                os.kill(process_of(actor), signal.SIGKILL)
            else:
                ray.kill(actor, no_restart=False)
            load.wait_for(10)
    assert not load.wrong
    assert load.calls >= 10 * KILLS


def test_an_update_under_load_mixes_no_versions(folder: Path) -> None:
    known = [answers(folder, version) for version in (1, 2)]
    seen: list[int] = []

    def check(number: int, got: Any) -> object:
        found = [version for version in (0, 1) if np.array_equal(got, known[version][number])]
        seen.extend(found)
        return None if found else "an answer is of neither version"

    with opened(folder) as model:
        with Load(model, check) as load:
            load.wait_for(30)
            for number in range(6):
                model.update(folder / f"split{2 - number % 2}")
                load.wait_for(20)
            ray.kill(model._links[0][0].actor, no_restart=False)  # which begins again with the first version
            load.wait_for(20)
            model.update(folder / "split2")
        assert not load.wrong
        assert set(seen) == {0, 1}
        assert all(np.array_equal(model.run(None, f)[0], y) for f, y in zip(batches(), known[1], strict=True))
        with pytest.raises(CommandError, match=r"it has no manifest\.json"):
            model.update(folder / "split3")
        assert model.version == read_manifest(folder / "split2").version


def test_other_processes_ask_the_same_actors(folder: Path) -> None:
    with opened(folder) as model:
        content = pickle.dumps(model)

        def run() -> Any:
            return [pickle.loads(content).run(None, feeds)[0] for feeds in batches()[:2]]

        assert all(map(np.array_equal, ray.get(ray.remote(num_cpus=0)(run).remote()), answers(folder, 1)))


def test_a_missing_shard_is_named(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as model:
        model.run(None, batches()[0])
        actor = model._links[1][0].actor
        process = Path(f"/proc/{process_of(actor)}")
        ray.kill(actor, no_restart=True)
        deadline = time.monotonic() + PATIENCE
        while process.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        missing = r"shard 1 of .*split1, with items \(rows i mod 3 = 1\), pages .* does not answer"
        for feeds in batches()[:2]:
            with pytest.raises(CommandError, match=missing):
                model.run(None, feeds)
    shutil.copytree(folder / "split1", tmp_path / "lost")
    shutil.rmtree(tmp_path / "lost" / "shard-2")
    with pytest.raises(CommandError, match=r"shard 2 of .*lost, with items .* does not answer: .*: no such file"):
        ShardedModel(tmp_path / "lost", cpus=0, timeout=PATIENCE)


def test_tables_in_a_store(folder: Path, tmp_path: Path) -> None:
    """Each file is fetched once; one that is damaged is an error."""
    pytest.importorskip("moto.server")
    from support.s3_server import s3_server  # Ray's workers import this module, and have no folder of tests

    with s3_server() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        for version in (1, 2):
            fs.copy_files(str(folder / f"split{version}"), f"s3://bucket/split{version}")
        local = fetched("s3://bucket/split1", str(tmp_path), "shard-1")
        assert local.name == read_manifest(folder / "split1").version
        assert [path.name for path in local.iterdir() if path.is_dir()] == ["shard-1"]
        rows = local / "shard-1" / "rows.data"
        assert rows.read_bytes() == (folder / "split1" / "shard-1" / "rows.data").read_bytes()
        written = rows.stat().st_mtime_ns
        assert fetched("s3://bucket/split1", str(tmp_path), "shard-1") == local
        assert rows.stat().st_mtime_ns == written
        store, path = fs.FileSystem.from_uri("s3://bucket/split2/shard-0/rows.data")
        with store.open_output_stream(path) as file:
            file.write(b"other rows")
        with pytest.raises(CommandError, match=r"split2/shard-0/rows\.data is damaged: its SHA-1 is"):
            fetched("s3://bucket/split2", str(tmp_path), "shard-0")
        assert not [path for path in tmp_path.rglob("*") if path.name.endswith((".part", "rows.data")) and path != rows]


def test_a_slow_actor_is_asked_again_elsewhere(folder: Path) -> None:
    right = answers(folder, 1)
    with opened(folder, replicas=2, ask_again_after=90) as model:
        for _ in range(4):
            for feeds in batches():
                model.run(None, feeds)
        slow = process_of(model._links[0][0].actor)
        os.kill(slow, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            for feeds, expected in zip(batches(), right, strict=True):
                assert np.array_equal(model.run(None, feeds)[0], expected)
            assert time.monotonic() - begun < PATIENCE / 2
        finally:
            os.kill(slow, signal.SIGCONT)
