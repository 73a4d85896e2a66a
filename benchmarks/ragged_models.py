"""Models with ragged features against the same model with sparse ones, timed in one run.

    python benchmarks/ragged_models.py [--rows 1 64 1024 8192] [--seconds 4] [--json]

Three lookups (mean) in tables of 200,000 x 32, ten ids a row on average (Poisson), joined with eight numbers and given
to three dense layers. The sides take turns:

- triples: exported with SparseTensorSpec, so that each feature has three inputs;
- ragged features: that model with `onnx_sparse.to_ragged`;
- to_sparse: exported with RaggedTensorSpec, looked up through `to_sparse`;
- map_flat_values: exported with RaggedTensorSpec, gathered, and averaged by `tf.reduce_mean`.

CPU time of sessions of one thread: of a run, and of a run with the conversion of Arrow columns to its inputs. Lookups
are `embedding_lookup_sparse` or `safe_embedding_lookup_sparse`, which drops negative ids first; map_flat_values has no
such form, and is the same in both. Figures above 1 are slower than triples.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from machine import this_machine
from runner import parser, print_table, progress

VOCABULARY, WIDTH, FEATURES, DENSE = 200_000, 32, 3, 8

Run = Callable[[], object]


def models(*, safe: bool) -> dict[str, Any]:
    """The sides, as converted models that compute the same."""
    import tensorflow as tf

    import onnx_sparse
    from onnx_sparse.converters.tensorflow import convert

    random = tf.random.Generator.from_seed(1)
    tables = [tf.Variable(random.normal([VOCABULARY, WIDTH])) for _ in range(FEATURES)]
    sizes = [FEATURES * WIDTH + DENSE, 128, 64, 1]
    layers = [tf.Variable(random.normal(pair) * 0.1) for pair in itertools.pairwise(sizes)]

    def scores(rows: list[Any], dense: Any) -> Any:
        hidden = tf.concat([*rows, dense], axis=1)
        for layer in layers[:-1]:
            hidden = tf.nn.relu(hidden @ layer)
        return tf.sigmoid(hidden @ layers[-1])[:, 0]

    def look_up(table: Any, ids: Any) -> Any:
        if safe:
            return tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="mean")
        return tf.nn.embedding_lookup_sparse(table, ids, None, combiner="mean")

    def mean(table: Any, ids: Any) -> Any:
        return tf.reduce_mean(tf.ragged.map_flat_values(tf.gather, table, ids), axis=1)

    def exported(spec: Any, reduced: Callable[[Any, Any], Any]) -> Any:
        signature = [*[spec] * FEATURES, tf.TensorSpec([None, DENSE], tf.float32, "dense")]

        @tf.function(input_signature=signature)
        def score(a: Any, b: Any, c: Any, dense: Any) -> Any:
            pairs = zip(tables, (a, b, c), strict=True)
            return {"score": scores([reduced(table, ids) for table, ids in pairs], dense)}

        return convert(score)

    triples = exported(tf.SparseTensorSpec([None, None], tf.int64), look_up)
    ragged = tf.RaggedTensorSpec([None, None], tf.int64)
    return {
        "triples": triples,
        "ragged features": onnx_sparse.to_ragged(triples),
        "to_sparse": exported(ragged, lambda table, ids: look_up(table, ids.to_sparse())),
        "map_flat_values": exported(ragged, mean),
    }


def rows_of(count: int) -> pa.RecordBatch:
    """Rows of ids and numbers. Every row has an id, as the mean of none is not a number in map_flat_values."""
    random = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for name in "abc":
        lengths = np.maximum(random.poisson(10, count), 1)
        splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        columns[name] = pa.ListArray.from_arrays(splits, random.integers(0, VOCABULARY, splits[-1]))
    numbers = random.normal(size=count * DENSE).astype(np.float32)
    columns["dense"] = pa.FixedSizeListArray.from_arrays(numbers, DENSE)
    return pa.record_batch(columns)


def sides(converted: Mapping[str, Any], batch: pa.RecordBatch) -> tuple[dict[str, Run], dict[str, Run]]:
    """Runs of each side, and runs with the conversion of the rows; all have given the same answers."""
    import onnx_sparse
    from onnx_sparse.arrow import feeds

    runs: dict[str, Run] = {}
    whole: dict[str, Run] = {}
    expected = None
    for name, model in converted.items():
        options = onnx_sparse.session_options()
        options.intra_op_num_threads = 1
        session = onnx_sparse.InferenceSession(model, options, backend="native")
        features = onnx_sparse.features(session)
        given = feeds(batch, features)
        runs[name] = lambda session=session, given=given: session.run(None, given)
        whole[name] = lambda session=session, features=features: session.run(None, feeds(batch, features))
        (score,) = session.run(None, given)
        expected = score if expected is None else expected
        np.testing.assert_allclose(score, expected, rtol=1e-4, atol=1e-6)
    return runs, whole


def cpu_times(contenders: Mapping[str, Run], seconds: float) -> dict[str, float]:
    """The median microseconds of CPU of each side, which take turns, each first in turn."""
    once = max(_cpu(run) for run in contenders.values())
    repeats = max(1, int(2e-3 / max(once, 1e-6)))  # short runs are timed together
    times: dict[str, list[float]] = {name: [] for name in contenders}
    names, begin = list(contenders), time.monotonic()
    while time.monotonic() - begin < seconds or len(times[names[0]]) < 7:
        names = names[1:] + names[:1]
        for name in names:
            run = contenders[name]
            run()
            start = time.process_time()
            for _ in range(repeats):
                run()
            times[name].append((time.process_time() - start) / repeats)
    return {name: 1e6 * statistics.median(values) for name, values in times.items()}


def _cpu(run: Run) -> float:
    run()
    start = time.process_time()
    run()
    return time.process_time() - start


def show(title: str, results: list[tuple[str, dict[str, float]]], *, as_json: bool) -> None:
    """Print microseconds and ratios to the first side."""
    if as_json:
        lines = [{"case": case, "microseconds": times} for case, times in results]
        sys.stdout.write(json.dumps({"title": title, "results": lines}, indent=2) + "\n")
        return
    first, *others = results[0][1]
    rows = [
        [case, f"{times[first]:.0f}", *(f"{times[name] / times[first]:.2f}" for name in others)]
        for case, times in results
    ]
    print_table(title, ["case", f"{first} us", *(f"{name} / {first}" for name in others)], rows)


def main() -> None:
    """Measure and print."""
    made = parser(__doc__, rows=[1, 64, 1024, 8192])
    made.add_argument("--seconds", type=float, default=4.0, help="for each line")
    made.add_argument("--json", action="store_true")
    arguments = made.parse_args()
    here, results = this_machine(), []
    for safe in (False, True):
        converted = models(safe=safe)
        for count in arguments.rows:
            runs, whole = sides(converted, rows_of(count))
            kind = "safe lookup" if safe else "lookup"
            for what, contenders in (("model", runs), ("Arrow and model", whole)):
                case = f"{kind}, {count} rows, {what}"
                progress(case)
                results.append((case, cpu_times(contenders, arguments.seconds)))
    progress("")
    show(str(here), results, as_json=arguments.json)


if __name__ == "__main__":
    main()
