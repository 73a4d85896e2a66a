"""TensorFlow's embedding lookups, converted and run in ONNX Runtime, against TensorFlow itself, timed in one run.

    python benchmarks/tensorflow_lookups.py [--threads 1 2] [--only WORD] [--tf2onnx] [--repeat N] [--save]

Every line is a case: the median time of a run of the converted model, that time divided by TensorFlow's (below 1 is
faster), the largest difference between their results, and the peak memory of one run beyond what the process has with
the model loaded and the inputs made. `--tf2onnx` adds the model that tf2onnx alone writes; its skewed batch needs 7 GB
and minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contest import take_turns
from machine import this_machine
from records import Line
from runner import finish, is_apart, measured_apart, parse, parser
from sessions import BoundRun

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One line of the table: safe_embedding_lookup_sparse(combiner="mean") of a table that is a variable.

    Attributes:
        name: The name of the case.
        lengths: The number of ids in each row.
        table: The table's shape.
        weighted: Whether the ids have weights.
        ragged: Whether the ids are a RaggedTensor.
        parts: The number of variables into which the table is split.
    """

    name: str
    lengths: Sequence[int]
    table: tuple[int, int] = (200_000, 32)
    weighted: bool = False
    ragged: bool = False
    parts: int = 1

    def feeds(self) -> dict[str, Array]:
        """The batch: coordinates, ids, dense shape and, if weighted, weights; or ids and row splits."""
        random = np.random.default_rng(1)
        rows = np.repeat(np.arange(len(self.lengths)), self.lengths)
        columns = np.concatenate([np.arange(length) for length in self.lengths])
        ids = random.integers(0, self.table[0], len(rows))
        if self.ragged:
            return {"ids": ids, "splits": np.cumsum([0, *self.lengths])}
        feeds = {
            "indices": np.stack([rows, columns], axis=1),
            "ids": ids,
            "dense_shape": np.array([len(self.lengths), max(self.lengths)]),
        }
        return feeds | ({"weights": random.random(len(rows), np.float32) + 0.1} if self.weighted else {})

    def function(self) -> Any:
        """The lookup as a tf.function of the batch."""
        import tensorflow as tf

        values = np.random.default_rng(2).standard_normal(self.table, np.float32)
        table = [tf.Variable(part) for part in np.array_split(values, self.parts)]
        if self.ragged:
            specs = [tf.TensorSpec([None], tf.int64, name) for name in ("ids", "splits")]

            @tf.function(input_signature=specs)
            def ragged_lookup(ids: Any, splits: Any) -> Any:
                ragged = tf.RaggedTensor.from_row_splits(ids, splits, validate=False)
                return tf.nn.safe_embedding_lookup_sparse(table, ragged, combiner="mean")

            return ragged_lookup
        signature = [
            tf.TensorSpec([None, 2], tf.int64, "indices"),
            tf.TensorSpec([None], tf.int64, "ids"),
            tf.TensorSpec([2], tf.int64, "dense_shape"),
        ]
        signature += [tf.TensorSpec([None], tf.float32, "weights")] if self.weighted else []

        @tf.function(input_signature=signature)
        def lookup(indices: Any, ids: Any, dense_shape: Any, *weights: Any) -> Any:
            sparse, *by = (tf.SparseTensor(indices, entries, dense_shape) for entries in (ids, *weights))
            return tf.nn.safe_embedding_lookup_sparse(table, sparse, *by, combiner="mean")

        return lookup


def cases() -> Iterator[Case]:
    """Every case."""
    random = np.random.default_rng(0)
    ordinary = random.integers(0, 20, 4096)
    yield Case(f"mean, 4096 rows, {ordinary.sum()} ids, 200k x 32", ordinary.tolist())
    yield Case("the same, weighted", ordinary.tolist(), weighted=True)
    power_law = np.minimum(random.pareto(1.0, 4096) * 3, 3000).astype(int)
    power_law[0] = 3000
    yield Case(f"power-law lengths up to 3000, {power_law.sum()} ids", power_law.tolist())
    yield Case("power-law lengths, weighted", power_law.tolist(), weighted=True)
    yield Case("skewed, 2000 rows, one of 100k ids, 200k x 3", [100_000, *[1] * 1999], (200_000, 3))
    yield Case("power-law lengths, ragged", power_law.tolist(), ragged=True)
    yield Case("mean, 4096 rows, table in 4 parts", ordinary.tolist(), parts=4)
    yield Case("one row of 10 ids (latency)", [10])


def measure(threads: int, only: str, repeat: int, with_tf2onnx: bool) -> list[Line]:
    """Measure the lines of the table for one number of threads."""
    from onnx_sparse.converters.tensorflow import convert
    from onnx_sparse.converters.tensorflow.lazy_imports import require

    tf = require("tensorflow")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = []
    for case in cases():
        if only.lower() not in case.name.lower():
            continue
        feeds, function = case.feeds(), case.function()
        tensors = list(map(tf.constant, feeds.values()))
        models = {"converted": convert(function)} | ({"tf2onnx": _by_tf2onnx(function)} if with_tf2onnx else {})
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder, "feeds.npz"), **feeds)
            memory = {}
            bound = {}
            for name, model in models.items():
                path = Path(folder, f"{name}.onnx")
                path.write_bytes(model.SerializeToString())
                memory[name] = _in_own_process(path, threads)
                bound[name] = _bound(_session(path, threads), feeds)
        runs: dict[str, Callable[[], Any]] = dict(bound)
        runs["tensorflow"] = lambda function=function, tensors=tensors: function(*tensors)  # type: ignore[misc]
        expected, actual = function(*tensors).numpy(), bound["converted"].outputs()[0]
        difference = float(np.abs(expected - actual).max())
        facts = {"bytes": memory, "difference": difference}
        lines.append(Line(case.name, threads, take_turns(runs, repeat), facts=facts))
        print(_line(lines[-1]), flush=True)
    return lines


def _by_tf2onnx(function: Any) -> Any:
    import tf2onnx

    from onnx_sparse.converters.tensorflow.lazy_imports import quietly

    with quietly():
        return tf2onnx.convert.from_function(function, input_signature=function.input_signature, opset=18)[0]


def _session(path: Path, threads: int) -> Any:
    import onnx_sparse

    options = onnx_sparse.session_options()
    options.intra_op_num_threads = threads
    return onnx_sparse.InferenceSession(path, options)


def _bound(session: Any, feeds: dict[str, Array]) -> BoundRun:
    names = [value.name for value in session.get_inputs()]
    return BoundRun(session, dict(zip(names, feeds.values(), strict=True)))


def _in_own_process(model: Path, threads: int) -> int:
    """The peak memory of a run in bytes, measured in a process that does nothing else."""
    command = [sys.executable, __file__, "--peak-of", str(model), "--threads", str(threads)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def peak_of_one_run(model: Path, threads: int) -> int:
    """The peak memory of one run of a model in bytes; the batch is in the model's folder."""
    with np.load(model.with_name("feeds.npz")) as file:
        run = _bound(_session(model, threads), dict(file))
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak, which loading has raised
    before = _memory("VmRSS")
    run()
    return _memory("VmHWM") - before


def _memory(key: str) -> int:
    status = Path("/proc/self/status").read_text()
    return next(1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith(key))


def _line(line: Line) -> str:
    memory = {name: size / 2**20 for name, size in line.facts["bytes"].items()}
    peers = "  ".join(
        f"{name} {line.ratio(name):.2f}" + (f" ({memory[name]:.0f} MB)" if name in memory else "")
        for name in line.names[1:]
    )
    times = f"{1e3 * line.seconds('converted'):9.3f} ms {memory['converted']:8.1f} MB {line.facts['difference']:9.1e}"
    return f"{line.case:50} {line.threads:2}  {times}   {peers}"


def main() -> None:
    """Measure and print."""
    made = parser(__doc__, threads=[1, 2], only="")
    made.add_argument("--tf2onnx", action="store_true", help="also measure the model that tf2onnx alone writes")
    made.add_argument("--repeat", type=int, default=25)
    made.add_argument("--peak-of", type=Path, help=argparse.SUPPRESS)
    given = parse(made)
    if given.peak_of:
        print(peak_of_one_run(given.peak_of, given.threads[0]))
        return
    here = this_machine()
    if not is_apart():
        head = f"{'case':50} {'th':>2}  {'converted':>12} {'peak':>11} {'differs':>9}   converted / peer"
        print(f"{here}\n{head}", flush=True)
    lines = measured_apart(given.threads, lambda threads: measure(threads, given.only, given.repeat, given.tf2onnx))
    finish("tensorflow_lookups", here, lines, given)


if __name__ == "__main__":
    main()
