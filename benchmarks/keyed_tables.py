"""Lookups by key beside what people use for them, from the same queries in one run.

    python benchmarks/keyed_tables.py [--keys 1000000] [--queries 1000 20000] [--threads 1 2] [--only WORD] [--save]
    python benchmarks/keyed_tables.py --start 100000000

Every line is a case: our time of a batch, and divided by each peer's (below 1 is faster). Batches differ from run to
run, so that no cache holds the answers. `limit` is one read from an index and one from the keys that depends on it,
with ten lookups under way. Text is given as each library's own strings; `with Python's text` says what a batch takes
from an array of Python's.

`--start` measures what a session over so many keys takes to start, and the memory that no other process shares.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from contest import take_turns
from machine import this_machine
from records import Line
from runner import finish, is_apart, measured_apart, parse, parser
from sessions import session_options

Array = np.ndarray[Any, Any]
Run = Callable[[], object]

#: So many batches take turns.
_BATCHES = 40
#: More text keys take LabelEncoder, pandas and a dict minutes and gigabytes.
_MOST_OF_TEXT = 1_000_000


def in_turn(run: Callable[[Any], object], batches: list[Any]) -> Run:
    """A run of the next batch."""
    following = itertools.cycle(batches)
    return lambda: run(next(following))


def compiled(folder: Path) -> Any:
    """The peers that are C++."""
    import torch

    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise FileNotFoundError("keyed_tables.cc needs g++ or clang++")
    source, made = Path(__file__).with_suffix(".cc"), folder / "peers.so"
    include = Path(torch.__file__).parent / "include"
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            "-O3",
            "-shared",
            "-fPIC",
            "-I",
            include,
            source,
            "-o",
            made,
        ],
        check=True,
    )
    library = ctypes.CDLL(str(made))
    library.map_of_integers.restype = library.map_of_texts.restype = ctypes.c_void_p
    return library


def address(array: Array) -> ctypes.c_void_p:
    """Where the elements of an array are."""
    return ctypes.c_void_p(array.ctypes.data)


def lookup_model(folder: Path, count: int, text: bool) -> tuple[Path, list[Array], Array]:
    """A model of one lookup with its tables beside it, the inputs of its keys, and the keys themselves."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from onnx_sparse import keyed_tables

    random = np.random.default_rng(0)
    numbers = random.permutation(count)
    if text:
        keys = np.array([f"id_{number}" for number in numbers], object)
        inputs = list(keyed_tables.join_text(keys))
        index = keyed_tables.text_index(*inputs)
    else:
        keys = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)  # odd, so all differ
        inputs = [keys]
        index = keyed_tables.key_index(keys)
    op, names = ("FindStrings", ["key_bytes", "key_offsets"]) if text else ("FindKeys", ["keys"])
    kind = TensorProto.STRING if text else TensorProto.INT64
    graph = helper.make_graph(
        [helper.make_node(op, [*names, "index", "queries"], ["positions"], domain="onnx_sparse")],
        "lookup",
        [helper.make_tensor_value_info("queries", kind, [None])],
        [helper.make_tensor_value_info("positions", TensorProto.INT64, [None])],
        [numpy_helper.from_array(a, n) for n, a in zip([*names, "index"], [*inputs, index], strict=True)],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    path = folder / "model.onnx"
    onnx.save(
        helper.make_model(graph, ir_version=10, opset_imports=imports),
        path,
        save_as_external_data=True,
        location="model.data",
    )
    return path, inputs, keys


def text_values(batches: list[Array]) -> list[Any]:
    """Batches of text as ONNX Runtime holds it, which Python gets from a run only."""
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    names = [f"batch_{number}" for number in range(len(batches))]
    graph = helper.make_graph(
        [helper.make_node("Identity", [f"{name}_constant"], [name]) for name in names],
        "batches",
        [],
        [helper.make_tensor_value_info(name, TensorProto.STRING, [None]) for name in names],
        [numpy_helper.from_array(batch, f"{name}_constant") for name, batch in zip(names, batches, strict=True)],
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
    return list(ort.InferenceSession(model.SerializeToString()).run_with_ort_values(names, {}))


def batches_of(keys: Array, size: int, absent: bool) -> list[Array]:
    """Batches of queries: keys, or what is none."""
    random = np.random.default_rng(1)
    drawn = [keys[random.integers(0, len(keys), size)] for _ in range(_BATCHES)]
    if not absent:
        return drawn
    return [batch + "x" if batch.dtype == object else batch ^ 1 << 62 for batch in drawn]


def contenders(path: Path, inputs: list[Array], keys: Array, batches: list[Array], threads: int) -> Iterator[Any]:
    """Each contender's name and run, ours first."""
    import onnxruntime as ort
    import pandas as pd
    import polars as pl
    import tensorflow as tf
    import torch

    import onnx_sparse

    text = keys.dtype == object
    session = onnx_sparse.InferenceSession(path, session_options(threads))
    values = text_values(batches) if text else list(map(ort.OrtValue.ortvalue_from_numpy, batches))
    of_values = [{"queries": value} for value in values]
    yield (
        "onnx_sparse",
        in_turn(lambda given: session.run_with_ort_values(["positions"], given), of_values),
    )
    if text:
        yield (
            "with Python's text",
            in_turn(lambda batch: session.run(None, {"queries": batch}), batches),
        )
    positions = np.arange(len(keys))
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(keys), positions), -1)
    looked_up = tf.function(table.lookup, autograph=False)
    yield "TensorFlow", in_turn(looked_up, list(map(tf.constant, batches)))
    if not text or len(keys) <= _MOST_OF_TEXT:
        encoder = ort.InferenceSession(onnx_sparse.lower(path).SerializeToString(), session_options(threads))
        yield (
            "LabelEncoder",
            in_turn(lambda g: encoder.run_with_ort_values(["positions"], g), of_values),
        )
        frame = pd.Index(keys)
        yield "pandas", in_turn(frame.get_indexer, list(map(pd.Index, batches)))
        positions_of = dict(zip(keys.tolist(), range(len(keys)), strict=True))
        yield (
            "dict",
            in_turn(
                lambda b: [positions_of.get(k, -1) for k in b],
                [batch.tolist() for batch in batches],
            ),
        )
    if not text:
        torch.set_num_threads(threads)
        order = np.argsort(keys)
        ordered, places = torch.from_numpy(keys[order]), torch.from_numpy(order)

        def searched(queries: torch.Tensor) -> torch.Tensor:
            at = torch.searchsorted(ordered, queries).clamp_(max=len(keys) - 1)
            return torch.where(ordered[at] == queries, places[at], -1)

        yield "torch", in_turn(searched, list(map(torch.from_numpy, batches)))
    right = pl.DataFrame({"key": keys.tolist() if text else keys, "position": positions})
    left = [pl.DataFrame({"key": batch.tolist() if text else batch}) for batch in batches]
    yield "polars", in_turn(lambda batch: batch.join(right, on="key", how="left"), left)
    library, found = compiled(path.parent), np.empty(len(batches[0]), np.int64)
    if text:
        from onnx_sparse.keyed_tables import join_text

        built = ctypes.c_void_p(library.map_of_texts(*map(address, inputs), len(keys)))
        pairs = list(map(join_text, batches))
        yield (
            "ska",
            in_turn(
                lambda p: library.find_texts(built, *map(address, p), len(found), address(found)),
                pairs,
            ),
        )
    else:
        built = ctypes.c_void_p(library.map_of_integers(address(keys), len(keys)))
        yield (
            "ska",
            in_turn(
                lambda b: library.find_integers(built, address(b), len(b), address(found)),
                batches,
            ),
        )
    slots = np.random.default_rng(2).integers(0, len(keys), len(keys) * 4 // 3, np.uint32)
    data = keys if not text else np.arange(len(keys))
    seeds = itertools.count(1)
    yield (
        "limit",
        lambda: library.least(
            address(slots),
            ctypes.c_uint64(len(slots)),
            address(data),
            len(found),
            ctypes.c_uint64(next(seeds)),
        ),
    )


def measure(threads: int, only: str, given: argparse.Namespace) -> list[Line]:
    """Measure the lines of the table for one number of threads."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = []
    for count, text in itertools.product(given.keys, (False, True)):
        kind = "text" if text else "int64"
        if only not in kind:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path, inputs, keys = lookup_model(Path(folder), count, text)
            for size, absent in itertools.product(given.queries, (False, True)):
                batches = batches_of(keys, size, absent)
                runs = dict(contenders(path, inputs, keys, batches, threads))
                case = f"{kind}, {count:,} keys, {size:,} {'absent' if absent else 'present'}"
                lines.append(Line(case, threads, take_turns(runs, given.repeat, given.seconds)))
                print(_line(lines[-1]), flush=True)
    return lines


def _line(line: Line) -> str:
    peers = "  ".join(f"{name} {line.ratio(name):.2f}" for name in line.names[1:])
    return f"{line.case:42} {line.threads:2} {1e6 * line.seconds('onnx_sparse'):9.1f} us   {peers}"


def measure_start(count: int, text: bool) -> None:
    """Print what a session over so many keys takes to start, and its own memory, in a process of its own."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        path, _, _ = lookup_model(Path(folder), count, text)
        subprocess.run([sys.executable, __file__, "--start-of", str(path)], check=True)


def start_of(path: Path) -> None:
    """Start a session of a model, and print the seconds and bytes that it takes."""
    import onnx_sparse

    onnx_sparse.InferenceSession(path)  # so that libraries are loaded, and pages of the file are read
    before = _own_memory()
    start = time.perf_counter()
    session = onnx_sparse.InferenceSession(path)
    seconds, own = time.perf_counter() - start, _own_memory() - before
    print(
        f"{len(session.get_inputs())} input, started in {seconds:.3f} s, own memory {own / 2**20:.1f} MB",
        flush=True,
    )


def _own_memory() -> int:
    status = Path("/proc/self/status").read_text()
    return next(1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))


def main() -> None:
    """Measure and print."""
    made = parser(__doc__, threads=[1, 2], only="", keys=[1_000_000], queries=[1_000, 20_000])
    made.add_argument("--repeat", type=int, default=10)
    made.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        help="how long to time each contender of a case",
    )
    made.add_argument(
        "--start",
        type=int,
        nargs="+",
        default=[],
        help="measure the start over so many keys",
    )
    made.add_argument("--start-of", type=Path, help=argparse.SUPPRESS)
    given = parse(made)
    if given.start_of:
        start_of(given.start_of)
    elif given.start:
        for count in given.start:
            measure_start(count, given.only == "text")
    else:
        here = this_machine()
        if not is_apart():
            print(
                f"{here}\n{'case':42} {'th':>2} {'a batch':>12}   our time / each peer's",
                flush=True,
            )
        lines = measured_apart(given.threads, lambda threads: measure(threads, given.only, given))
        finish("keyed_tables", here, lines, given)


if __name__ == "__main__":
    main()
