"""What a model costs whose tables are split: `onnx-sparse shard`, with all shards here or as actors on Ray's nodes.

    python benchmarks/sharded_lookups.py [--rows 512] [--vocabulary 500000] [--shards 1 2 4 8] [--ray] [--exact]

Without --ray, the shards are sessions of this process, asked one after another, and the slowest counts. With --ray,
each is an actor on a node of its own (ray.cluster_utils), which has room for its rows only; a batch is what a caller
waits for, and rows per second are those of several callers. The network is counted in bytes, and calculated: one round
trip, and all bytes through the one interface of the machine that asks. Medians of --turns batches: of the time that
the processor works for the one thread, but with --ray of the time that the caller waits.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from machine import this_machine
from onnx import ModelProto
from recommender import DENSE, NAMES, recommender
from runner import parser

import onnx_sparse
from onnx_sparse.sharding.session import Shard, SplitModel, opened

Array = np.ndarray[Any, Any]

WIDTH, IDS = 64, 10
NETWORKS = (1, 10, 25)  # gigabits per second
CALLERS, SECONDS = 4, 5.0
#: What is measured: the processor's time, which other work on this machine does not change; or the caller's.
CLOCK = [time.thread_time]


def whole_model(vocabulary: int) -> ModelProto:
    """Means of looked-up rows, and two layers over them; of each feature there are the ids and their rows."""
    inputs = ", ".join(f"int64[{n}_n] {n}_ids, int64[{n}_n] {n}_rows" for n in NAMES)
    lookups = "\n".join(
        f"{n}_mean = onnx_sparse.EmbeddingSegmentsMean ({n}_table, {n}_ids, {n}_rows, count)" for n in NAMES
    )
    rng = np.random.default_rng(0)
    count = "shape = Shape (dense)\n count = Gather (shape, zero)\n"
    return recommender(
        inputs, count + lookups, vocabulary, WIDTH, lambda shape: rng.uniform(-0.05, 0.05, shape).astype("f")
    )


def make_batch(rng: np.random.Generator, rows: int, vocabulary: int) -> dict[str, Array]:
    """A batch: about ten ids a row; one row in fifty has none."""
    feeds: dict[str, Array] = {"dense": rng.standard_normal((rows, DENSE), np.float32)}
    for name in NAMES:
        lengths = rng.poisson(IDS, rows) * (rng.random(rows) > 0.02)
        feeds[f"{name}_ids"] = rng.integers(0, vocabulary, lengths.sum())
        feeds[f"{name}_rows"] = np.repeat(np.arange(rows), lengths)
    return feeds


@dataclass
class Counted:
    """Seconds of the shards and bytes of each batch, around what asks the shards."""

    seconds: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)

    def around(self, model: SplitModel) -> None:
        """Count what a model asks."""
        ask = model._ask

        def counted(requests: Mapping[int, Any]) -> Mapping[int, Mapping[str, Array]]:
            begun = CLOCK[0]()
            answers = ask(requests)
            self.seconds.append(CLOCK[0]() - begun)
            asked = [array for inputs, _ in requests.values() for array in inputs.values()]
            self.sent.append(sum(4 * a.size if a.dtype == np.int64 else a.nbytes for a in asked))  # ids go in 4 bytes
            self.returned.append(sum(array.nbytes for answer in answers.values() for array in answer.values()))
            return answers

        model._ask = counted


def slowest(folder: Path, count: int) -> SplitModel:
    """The shards in this process; the time of the slowest is that of all."""
    shards = [Shard(folder, number, 1) for number in range(count)]
    spent: list[float] = []

    def ask(requests: Mapping[int, Any]) -> Mapping[int, Mapping[str, Array]]:
        answers, spent[:] = {}, []
        for number, request in requests.items():
            begun = CLOCK[0]()
            answers[number] = shards[number].answer(*request)
            spent.append(CLOCK[0]() - begun)
        model.others = sum(spent) - max(spent)  # type: ignore[attr-defined]
        return answers

    model = SplitModel(folder, ask, 1)
    return model


@contextlib.contextmanager
def nodes(folder: Path, count: int) -> Iterator[tuple[SplitModel, list[int]]]:
    """A Ray cluster with a node for each shard, whose memory holds no whole model; and the actors' processes."""
    import ray
    from ray.cluster_utils import Cluster

    from onnx_sparse.ray import ShardedModel
    from onnx_sparse.sharding.manifest import read_manifest

    held = sum(file.bytes for file in read_manifest(folder).files if file.name.startswith("shard-0/"))
    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=0, memory=75 << 20, object_store_memory=80 << 20)  # of the caller
        for _ in range(count):
            cluster.add_node(num_cpus=1, memory=int(held * 1.2), object_store_memory=80 << 20)
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        with ShardedModel(folder, cpus=1, threads=1, timeout=300) as model:
            processes = [ray.get(link.actor.process.remote()) for links in model._links for link in links]
            yield model, processes
    finally:
        ray.shutdown()
        cluster.shutdown()


def memory(process: int) -> int:
    """The most memory that a process has had, with what it has mapped."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


def timed(model: Any, batches: Sequence[dict[str, Array]]) -> list[float]:
    """The seconds of each batch."""
    model.run(None, batches[0])
    seconds = []
    for feeds in batches:
        begun = CLOCK[0]()
        model.run(None, feeds)
        seconds.append(CLOCK[0]() - begun - getattr(model, "others", 0))
    return seconds


def rows_per_second(model: Any, batches: Sequence[dict[str, Array]]) -> float:
    """What several callers get."""
    done, until = [0] * CALLERS, time.monotonic() + SECONDS

    def call(caller: int) -> None:
        while time.monotonic() < until:
            feeds = batches[(caller + done[caller]) % len(batches)]
            model.run(None, feeds)
            done[caller] += 1

    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) * len(batches[0]["dense"]) / SECONDS


def require_equal(whole: Any, split: Any, batches: Sequence[dict[str, Array]]) -> None:
    """The answers of the whole model."""
    for feeds in batches:
        [expected], [got] = whole.run(None, feeds), split.run(None, feeds)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    made = parser(__doc__)
    made.add_argument("--rows", type=int, default=512, help="rows of a batch")
    made.add_argument("--vocabulary", type=int, default=500_000, help="rows of each table")
    made.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4, 8])
    made.add_argument("--turns", type=int, default=31)
    made.add_argument("--round-trip", type=float, default=100, help="microseconds of an empty request")
    made.add_argument("--ray", action="store_true", help="actors on the nodes of a Ray cluster")
    made.add_argument("--exact", action="store_true", help="rows are sent, never sums")
    return made.parse_args()


def main() -> None:
    """Print the table."""
    given = arguments()
    CLOCK[0] = time.perf_counter if given.ray else time.thread_time
    rng = np.random.default_rng(1)
    batches = [make_batch(rng, given.rows, given.vocabulary) for _ in range(given.turns)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx_sparse.save(whole_model(given.vocabulary), folder / "model.onnx")
        whole = opened(folder / "model.onnx", 1, "auto")
        alone = statistics.median(timed(whole, batches))
        print(f"{this_machine()}\n\nthe whole model: {alone * 1e3:.2f} ms a batch")
        names = ["shards", "largest shard", "routing and merging", "shards' time", "batch", "times the whole", "sent"]
        names += ["returned", *(f"network, {speed} Gbit/s" for speed in NETWORKS), "rows/s", "memory of an actor"]
        print(f"\n| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)
        for count in given.shards:
            path = folder / str(count)
            made = onnx_sparse.shard(folder / "model.onnx", path, shards=count, at_least=1, exact=given.exact)
            local = contextlib.nullcontext((slowest(path, count), []))
            with nodes(path, count) if given.ray else local as (model, processes):
                require_equal(whole, model, batches[:3])
                counted = Counted()
                counted.around(model)
                batch = statistics.median(timed(model, batches))
                shards = statistics.median(counted.seconds)
                shards -= 0 if given.ray else (count - 1) * shards / count
                sent, returned = (statistics.median(part) for part in (counted.sent, counted.returned))
                network = [given.round_trip * 1e-3 + (sent + returned) * 8e-6 / speed for speed in NETWORKS]
                rate = f"{rows_per_second(model, batches):,.0f}" if given.ray else "-"
                most = f"{max(map(memory, processes)) / 1e6:,.0f} MB" if processes else "-"
            size = max(file.bytes for file in made.manifest.files)
            cells = [count, f"{size / 1e6:,.0f} MB", f"{(batch - shards) * 1e3:.2f} ms", f"{shards * 1e3:.2f} ms"]
            cells += [f"{batch * 1e3:.2f} ms", f"{batch / alone:.1f}", f"{sent / 1e3:,.0f} kB"]
            cells += [f"{returned / 1e3:,.0f} kB", *(f"{each:.2f} ms" for each in network), rate, most]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
