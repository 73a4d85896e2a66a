"""`onnx_sparse.ray.ShardedModel`: no wrong answer and no lost call, whatever dies or is replaced meanwhile."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import sys
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
        self.calls, self.wrong, self.longest = 0, list[object](), 0.0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(model, check, seed)) for seed in range(3)]

    def _call(self, model: ShardedModel, check: Callable[[int, Any], object], seed: int) -> None:
        rng, made = np.random.default_rng(seed), batches()
        while not self._stop.is_set():
            number, begun = int(rng.integers(len(made))), time.monotonic()
            try:
                fault = check(number, model.run(None, made[number])[0])
            except Exception as error:  # any is a lost call
                fault = error
            self.longest = max(self.longest, time.monotonic() - begun)
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
            ray.kill(model._links[0][0].actor, no_restart=False)
            load.wait_for(20)
            model.update(folder / "split2")
        assert not load.wrong
        assert set(seen) == {0, 1}
        assert all(np.array_equal(model.run(None, f)[0], y) for f, y in zip(batches(), known[1], strict=True))
        with pytest.raises(CommandError, match=r"it has no manifest\.json"):
            model.update(folder / "split3")
        assert model.version == read_manifest(folder / "split2").version


class Versions:
    """Folders of the two versions in turn, each of a name of its own; the one before the last is deleted."""

    def __init__(self, folder: Path, place: Path) -> None:
        self._folder, self._place, self.number = folder, place, 0
        self.answers = [answers(folder, version) for version in (1, 2)]

    def next(self) -> Path:
        """A new folder, of the other version."""
        self.number += 1
        made = self._place / str(self.number)
        shutil.copytree(self._folder / f"split{2 - self.number % 2}", made)
        return made

    def forget(self) -> None:
        """Delete the folder before the last one; another model takes its place every other time."""
        old = self._place / str(self.number - 1)
        shutil.rmtree(old, ignore_errors=True)
        if self.number % 2:
            shutil.copytree(self._folder / f"split{2 - self.number % 2}", old)

    def check(self, number: int, got: Any) -> object:
        """Whether an answer is of one version; for `Load`."""
        return None if any(np.array_equal(got, known[number]) for known in self.answers) else "of neither version"

    def require(self, model: ShardedModel) -> None:
        """The model answers of the last version."""
        known = self.answers[(self.number + 1) % 2]
        assert all(np.array_equal(model.run(None, f)[0], y) for f, y in zip(batches(), known, strict=True))


@pytest.fixture
def versions(folder: Path, tmp_path: Path) -> Versions:
    return Versions(folder, tmp_path)


@pytest.mark.timeout(1200)
def test_actors_that_are_killed_around_updates(
    versions: Versions,
    one_of: Callable[[int], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kills before an update, while and after each shard opens it, and after it, when the old folder is gone."""
    kill: Callable[[int], None] = lambda number: None  # noqa: E731 - replaced for each update
    ask = ShardedModel._ray

    def asked(self: ShardedModel, number: int, *rest: Any) -> Any:
        kill(2 * number)
        answered = ask(self, number, *rest)
        kill(2 * number + 1)
        return answered

    waits: dict[str, list[float]] = {"before": [], "during": [], "after": []}
    with ShardedModel(versions.next(), cpus=0, threads=1, timeout=PATIENCE) as model:
        monkeypatch.setattr(ShardedModel, "_ray", asked)
        for turn in range(20 // one_of(5)):
            for moment, waited in waits.items():
                victim = process_of(model._links[turn % SHARDS][0].actor)
                with Load(model, versions.check) as load:
                    load.wait_for(5)
                    if moment == "before":
                        os.kill(victim, signal.SIGKILL)

                    def kill(step: int, at: int = turn % (2 * SHARDS), process: int = victim) -> None:
                        if step == at:
                            os.kill(process, signal.SIGKILL)

                    kill = kill if moment == "during" else lambda step: None
                    model.update(versions.next())
                    versions.forget()
                    if moment == "after":
                        os.kill(victim, signal.SIGKILL)
                    load.wait_for(10)
                    versions.require(model)
                assert not load.wrong, (turn, moment)
                waited.append(load.longest)
    for moment, waited in waits.items():
        in_time = f"{sum(seconds <= 15 for seconds in waited)} of {len(waited)}"
        sys.stdout.write(f"kills {moment} an update: {in_time} answered within 15 s, longest {max(waited):.1f} s\n")
    assert max(map(max, waits.values())) < PATIENCE


def test_an_update_that_fails_leaves_all_shards_on_one_version(versions: Versions) -> None:
    """Whichever file of whichever part is damaged; also that of a version that is open."""
    with ShardedModel(versions.next(), cpus=0, threads=1, timeout=PATIENCE) as model:
        current, version = versions.number, model.version
        for file in read_manifest(versions._folder / "split2").files:
            for number in (current, current + 1):  # a copy of the open version, and the other
                damaged = versions._place / "damaged"
                shutil.copytree(versions._folder / f"split{2 - number % 2}", damaged)
                content = bytearray((damaged / file.name).read_bytes())
                content[len(content) // 2] ^= 1
                (damaged / file.name).write_bytes(content)
                with pytest.raises(CommandError, match="it is damaged, or of another version"):
                    model.update(damaged)
                shutil.rmtree(damaged)
                versions.require(model)
                assert model.version == version
        actor = model._links[2][0].actor
        os.kill(process_of(actor), signal.SIGKILL)
        versions.require(model)
        model.update(versions.next())
        versions.require(model)


def test_who_starts_with_a_replaced_folder_starts_with_the_current_one(versions: Versions) -> None:
    """Pickles, and models of the same name: such as replicas of Ray Serve, which repeat their first arguments."""
    options: dict[str, Any] = {"cpus": 0, "threads": 1, "timeout": PATIENCE, "name": "joined"}
    first = versions.next()
    with ShardedModel(first, **options) as model:
        other, content = ShardedModel(first, **options), pickle.dumps(model)
        for _ in range(2):
            model.update(versions.next())
            versions.forget()
        for links in model._links:
            os.kill(process_of(links[0].actor), signal.SIGKILL)
        versions.require(other)  # opened before: its version is gone, and no actor has it open
        assert other.version == model.version
        versions.require(pickle.loads(content))
        versions.require(ShardedModel(first, **options))
        other.update(versions.next())
        ray.kill(model._held, no_restart=False)  # what keeps the token starts again, too
        versions.require(ShardedModel(first, **options))
        versions.require(other)
    with ShardedModel(versions.next(), **options) as model:  # the name is free again
        versions.require(model)


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
