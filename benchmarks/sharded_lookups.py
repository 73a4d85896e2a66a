"""What lookups in tables split over machines would cost: measured on one machine, with a network that is computed.

    python benchmarks/sharded_lookups.py [--rows 512] [--vocabulary 500000] [--round-trip 100] [--gigabits 10]

A model with three tables is split by graph surgery into a model for each shard, which has every k-th row of each table
and sums what it has of each row of a batch, and a model that adds these sums and computes the rest. Each shard runs in
a process of its own, with one thread; they are asked one after another, because they would share this machine's cores.
The time of a batch is that of the slowest shard, of routing and merging, of one round trip, and of all bytes passing
the one network interface of the machine that asks. Medians of --turns batches.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from machine import this_machine
from onnx import ModelProto, TensorProto, helper, numpy_helper
from recommender import DENSE, NAMES, recommender
from runner import parser
from sessions import session_options

import onnx_sparse

Array = np.ndarray[Any, Any]

WIDTH, IDS = 64, 10


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


def shard_model(model: ModelProto, shard: int, shards: int) -> ModelProto:
    """What one shard runs: the sums of its rows of each table."""
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    lookups = [node for node in graph.node if node.op_type == "EmbeddingSegmentsMean"]
    tables = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for field in ("node", "input", "output", "initializer"):
        graph.ClearField(field)
    graph.input.append(helper.make_tensor_value_info("count", TensorProto.INT64, []))
    needed = {name for node in lookups for name in node.input[4:] if name}
    graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in needed)
    graph.node.extend(node for node in model.graph.node if set(node.output) & needed)
    for node in lookups:
        table, ids, rows = node.input[:3]
        node.op_type = "EmbeddingSegmentsSum"
        graph.node.append(node)
        graph.input.extend(helper.make_tensor_value_info(name, TensorProto.INT64, [None]) for name in (ids, rows))
        graph.output.append(helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, [None, WIDTH]))
        graph.initializer.append(numpy_helper.from_array(tables[table][shard::shards].copy(), table))
    return made


def merging_model(model: ModelProto, shards: int) -> ModelProto:
    """What the machine that asks runs: sums of the shards' sums, divided by the numbers of ids, and the rest."""
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    nodes = list(graph.node)
    graph.ClearField("node")
    gone: set[str] = set()
    for node in nodes:
        if node.op_type != "EmbeddingSegmentsMean":
            graph.node.append(node)
            continue
        gone |= set(node.input[:3])
        mean = node.output[0]
        partial = [f"{mean}_{shard}" for shard in range(shards)]
        graph.node.append(helper.make_node("Sum", partial, [f"{mean}_sum"]))
        graph.node.append(helper.make_node("Div", [f"{mean}_sum", f"{mean}_ids"], [mean]))
        for name, width in [*((name, WIDTH) for name in partial), (f"{mean}_ids", 1)]:
            graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, width]))
    for values in (graph.input, graph.initializer):
        for value in [value for value in values if value.name in gone]:
            values.remove(value)
    return made


def opened(model: ModelProto | Path) -> onnx_sparse.InferenceSession:
    """A session of one thread, which does not warn of initializers that are left over."""
    options = session_options(1)
    options.log_severity_level = 3
    return onnx_sparse.InferenceSession(model, options)


def serve(path: Path, pipe: Connection) -> None:
    """A shard: answers inputs with outputs and the seconds that they took, until it gets None."""
    session = opened(path)
    while (feeds := pipe.recv()) is not None:
        begun = time.perf_counter()
        results = session.run(None, feeds)
        pipe.send((results, time.perf_counter() - begun))


class Shards:
    """The processes of the shards, and the model that merges what they answer."""

    def __init__(self, model: ModelProto, shards: int, folder: Path) -> None:
        self.count = shards
        self.merging = opened(merging_model(model, shards))
        self.means = [node.output[0] for node in model.graph.node if node.op_type == "EmbeddingSegmentsMean"]
        context = multiprocessing.get_context("spawn")
        self.processes, self.pipes = [], []
        for shard in range(shards):
            path = folder / f"{shards}-{shard}.onnx"
            onnx.save(shard_model(model, shard, shards), path)
            mine, theirs = context.Pipe()
            process = context.Process(target=serve, args=(path, theirs), daemon=True)
            process.start()
            self.processes.append(process)
            self.pipes.append(mine)

    def close(self) -> None:
        """End the processes."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            pipe.send(None)
            process.join()

    def answer(self, feeds: dict[str, Array]) -> tuple[Array, Cost]:
        """The scores of a batch, and what they cost."""
        begun = time.perf_counter()
        count = np.array(len(feeds["dense"]))
        asked = [self._routed(feeds, shard, count) for shard in range(self.count)]
        routing = time.perf_counter() - begun
        answers = []
        for pipe, request in zip(self.pipes, asked, strict=True):
            pipe.send(request)
            answers.append(pipe.recv())
        begun = time.perf_counter()
        merged = {"dense": feeds["dense"]}
        for position, mean in enumerate(self.means):
            ids = np.bincount(feeds[f"{NAMES[position]}_rows"], minlength=int(count))
            merged[f"{mean}_ids"] = np.maximum(ids, 1).astype(np.float32)[:, None]
            merged |= {f"{mean}_{shard}": results[position] for shard, (results, _) in enumerate(answers)}
        (scores,) = self.merging.run(None, merged)
        merging = time.perf_counter() - begun
        sent = sum(array.nbytes for request in asked for array in request.values())
        returned = sum(array.nbytes for results, _ in answers for array in results)
        return scores, Cost(routing, max(seconds for _, seconds in answers), merging, sent, returned)

    def _routed(self, feeds: dict[str, Array], shard: int, count: Array) -> dict[str, Array]:
        """The ids of a shard; where they are in its tables, and their rows."""
        routed = {"count": count}
        for name in NAMES:
            mine = feeds[f"{name}_ids"] % self.count == shard
            routed[f"{name}_ids"] = feeds[f"{name}_ids"][mine] // self.count
            routed[f"{name}_rows"] = feeds[f"{name}_rows"][mine]
        return routed


@dataclass(frozen=True)
class Cost:
    """What a batch costs: seconds of its parts, and bytes sent to the shards and returned by them."""

    routing: float
    lookup: float
    merging: float
    sent: int
    returned: int


def make_batch(rng: np.random.Generator, rows: int, vocabulary: int) -> dict[str, Array]:
    """A batch: about ten ids a row; one row in fifty has none."""
    feeds: dict[str, Array] = {"dense": rng.standard_normal((rows, DENSE), np.float32)}
    for name in NAMES:
        lengths = rng.poisson(IDS, rows) * (rng.random(rows) > 0.02)
        feeds[f"{name}_ids"] = rng.integers(0, vocabulary, lengths.sum())
        feeds[f"{name}_rows"] = np.repeat(np.arange(rows), lengths)
    return feeds


def largest_difference(got: Array, expected: Array) -> float:
    """In units of the last place of the largest expected number: sums of sums are rounded in another order."""
    return float(np.abs(got - expected).max() / np.spacing(np.abs(expected).max()))


def main() -> None:
    """Print the table."""
    made = parser(__doc__)
    made.add_argument("--rows", type=int, default=512, help="rows of a batch")
    made.add_argument("--vocabulary", type=int, default=500_000, help="rows of each table")
    made.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4, 8])
    made.add_argument("--turns", type=int, default=15)
    made.add_argument("--round-trip", type=float, default=100, help="microseconds of an empty request")
    made.add_argument("--gigabits", type=float, default=10, help="of the network interface, per second")
    arguments = made.parse_args()
    rng = np.random.default_rng(1)
    batches = [make_batch(rng, arguments.rows, arguments.vocabulary) for _ in range(arguments.turns)]
    model = whole_model(arguments.vocabulary)
    print(f"{this_machine()}\n")
    print_single(model, batches)
    print(
        "| shards | routing | slowest shard | merging | to shards | from shards | network | batch | difference |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for count in arguments.shards:
            shards = Shards(model, count, Path(folder))
            measured = measure(shards, model, batches)
            shards.close()
            costs = [cost for cost, _ in measured]
            sent, returned = (statistics.median(getattr(c, part) for c in costs) for part in ("sent", "returned"))
            network = arguments.round_trip * 1e-3 + (sent + returned) * 8e-6 / arguments.gigabits
            parts = [
                statistics.median(getattr(c, part) for c in costs) * 1e3 for part in ("routing", "lookup", "merging")
            ]
            times = " | ".join(f"{part:.2f} ms" for part in parts)
            print(
                f"| {count} | {times} | {sent / 1e3:,.0f} kB | {returned / 1e3:,.0f} kB | {network:.2f} ms "
                f"| {sum(parts) + network:.2f} ms | {max(difference for _, difference in measured):.0f} ulp |",
                flush=True,
            )


def print_single(model: ModelProto, batches: Sequence[dict[str, Array]]) -> None:
    """Print what the whole model takes in one process."""
    session = opened(model)
    session.run(None, batches[0])
    seconds = []
    for feeds in batches:
        begun = time.perf_counter()
        session.run(None, feeds)
        seconds.append(time.perf_counter() - begun)
    ids = statistics.median(sum(len(feeds[f"{name}_ids"]) for name in NAMES) for feeds in batches)
    print(f"the whole model in one process: {statistics.median(seconds) * 1e3:.2f} ms")
    print(f"its looked-up rows: {ids * WIDTH * 4 / 1e3:,.0f} kB\n")


def measure(shards: Shards, model: ModelProto, batches: Sequence[dict[str, Array]]) -> list[tuple[Cost, float]]:
    """The cost of each batch, and how far its scores are from those of the whole model."""
    whole = opened(model)
    shards.answer(batches[0])
    measured = []
    for feeds in batches:
        scores, cost = shards.answer(feeds)
        (expected,) = whole.run(None, feeds)
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
        measured.append((cost, largest_difference(scores, expected)))
    return measured


if __name__ == "__main__":
    main()
