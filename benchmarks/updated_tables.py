"""A table with keys that does not fit one's patience otherwise: how it starts, is shared, and is updated.

    python benchmarks/updated_tables.py [--keys 100000000] [--changed 100000] [--processes 3] [--folder DIR]

Writes a model with so many int64 keys and rows of 16 floats (7.7 GB for 100 million) block by block, and deletes it
at the end. Then, each in a process of its own: the start of a session and the memory that only it has, several
processes that look up rows of the same table at once, `random_access`, updates, and `tables --check`. The answers are
compared with the rows that were written. On Linux.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from machine import this_machine
from onnx import TensorProto, helper, numpy_helper
from runner import parser

import onnx_sparse
from onnx_sparse.commands.table_updates.changes import update_tables
from onnx_sparse.files.ranges import bytes_of
from onnx_sparse.keyed_tables import key_index
from onnx_sparse.models.files.external_data import write_model
from onnx_sparse.models.files.load_and_save import writer

_WIDTH = 16
_ROWS_AT_ONCE = 1 << 20
_LOOKED_UP = 20_000
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def keys_of(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The keys of rows: as distinct as their numbers, and as even as hashes."""
    return (numbers.astype(np.uint64) * _FACTOR).view(np.int64)


def rows_of(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rows of keys, by their numbers."""
    return np.asarray((numbers[:, None] % 65_521 + np.arange(_WIDTH)).astype(np.float32))


def make_model(path: Path, count: int) -> None:
    """Write a model that gives the rows of keys, after a row for missing ones."""

    def blocks() -> Iterator[memoryview]:
        yield bytes_of(np.zeros((1, _WIDTH), np.float32))
        for first in range(0, count, _ROWS_AT_ONCE):
            yield bytes_of(rows_of(np.arange(first, min(first + _ROWS_AT_ONCE, count))))

    begun = time.perf_counter()
    keys = keys_of(np.arange(count))
    index = key_index(keys)
    print(f"index of {count:,} keys: {time.perf_counter() - begun:.1f} s, {index.nbytes / count:.2f} bytes a key")
    tensors = [
        TensorProto(name="items.keys", data_type=TensorProto.INT64, dims=[count]),
        TensorProto(name="items.index", data_type=TensorProto.UINT8, dims=[index.nbytes]),
        TensorProto(name="items", data_type=TensorProto.FLOAT, dims=[count + 1, _WIDTH]),
    ]
    nodes = [
        helper.make_node("FindKeys", ["items.keys", "items.index", "queries"], ["found"], domain="onnx_sparse"),
        helper.make_node("Add", ["found", "one"], ["places"]),
        helper.make_node("Gather", ["items", "places"], ["rows"]),
    ]
    queries = helper.make_tensor_value_info("queries", TensorProto.INT64, [None])
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, [None, _WIDTH])
    one = numpy_helper.from_array(np.array(1), "one")
    graph = helper.make_graph(nodes, "items", [queries], [rows], [*tensors, one])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    model = helper.make_model(graph, ir_version=10, opset_imports=imports)
    placed = {tensor.name: tensor for tensor in model.graph.initializer}
    contents = [(placed["items.keys"], bytes_of(keys)), (placed["items.index"], bytes_of(index))]
    size = write_model(model, path, writer(path), contents=contents, apart=[(placed["items"], blocks)])
    print(f"written: {time.perf_counter() - begun:.1f} s in all, {size / 1e9:.2f} GB")


def figure(name: str, path: str) -> int:
    """A number of a file of /proc."""
    found = re.search(rf"^{name}:\s+(\d+)", Path(path).read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def own_memory() -> int:
    """The bytes that only this process has, and has written to."""
    return figure("Private_Dirty", "/proc/self/smaps_rollup") << 10


def look_up(path: Path, count: int, changed: int, *, random_access: bool, wait: bool) -> dict[str, float]:
    """Start a session, look up rows, and compare them; those below `changed` have been updated to -1."""
    tiny = helper.make_model(
        helper.make_graph(
            [helper.make_node("FindKeys", ["keys", "", "keys"], ["y"], domain="onnx_sparse")],
            "tiny",
            [helper.make_tensor_value_info("keys", TensorProto.INT64, [None])],
            [helper.make_tensor_value_info("y", TensorProto.INT64, [None])],
        ),
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)],
    )
    first = onnx_sparse.InferenceSession(tiny)  # which loads the libraries
    first.run(None, {"keys": np.array([1])})
    memory, begun = own_memory(), time.perf_counter()
    session = onnx_sparse.InferenceSession(path, random_access=random_access)
    started, memory = time.perf_counter() - begun, own_memory() - memory
    rng = np.random.default_rng(os.getpid())
    numbers = np.concatenate([rng.integers(0, count, _LOOKED_UP), rng.integers(0, max(changed, 1), 1000)])
    if wait:
        sys.stdin.readline()
    begun = time.perf_counter()
    (rows,) = session.run(None, {"queries": keys_of(numbers)})
    seconds = time.perf_counter() - begun
    expected = rows_of(numbers)
    expected[numbers < changed] = -1
    assert (rows == expected).all()
    (rows,) = session.run(None, {"queries": keys_of(np.arange(count + changed, count + changed + 100))})
    assert not rows.any(), "missing keys have the row of zeros"
    shares = figure("Pss", "/proc/self/smaps_rollup") << 10 if wait else 0
    return {"start_s": started, "own_MB": memory / 1e6, "first_lookup_s": seconds, "share_MB": shares / 1e6}


def in_process(action: str, **settings: Any) -> subprocess.Popen[str]:
    """Start this program for one action."""
    command = [sys.executable, __file__, "--action", json.dumps({"action": action, **settings})]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> dict[str, float]:
    """What an action has measured."""
    out, _ = process.communicate("\n")
    assert process.returncode == 0
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    print("  ".join(f"{name} {value:.3f}" for name, value in found.items()))
    return found


def act(action: str, path: str, **settings: Any) -> None:
    """Do one action, and print what was measured."""
    if action == "look up":
        print(json.dumps(look_up(Path(path), **settings)))
        return
    numbers = np.arange(settings["first"], settings["last"])
    values = np.full((len(numbers), _WIDTH), -1, np.float32)
    before, begun = figure("wchar", "/proc/self/io"), time.perf_counter()
    done = update_tables(Path(path), {"items": {"key": keys_of(numbers), "values": values}})
    seconds, written = time.perf_counter() - begun, figure("wchar", "/proc/self/io") - before
    size = len(numbers) * 8 + values.nbytes
    found = {"update_s": seconds, "written_MB": written / 1e6, "written_per_byte": written / size}
    print(json.dumps({**found, **{kind: done.tables[0][kind] for kind in ("added", "changed")}}))  # type: ignore[literal-required]


def main() -> None:
    """Write the model, and measure."""
    made = parser(__doc__, keys=100_000_000, changed=100_000, processes=3)
    made.add_argument("--folder", type=Path, help="where the model is written (default: the temporary folder)")
    made.add_argument("--action", help="what a process of this program is to do")
    options = made.parse_args()
    if options.action:
        act(**json.loads(options.action))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path, count, changed = Path(folder) / "items.onnx", options.keys, options.changed
        print(this_machine())
        make_model(path, count)
        asked = {"path": str(path), "count": count, "changed": 0, "random_access": False, "wait": False}
        for random_access in (False, True):
            print(f"a session, random_access={random_access}:")
            result(in_process("look up", **{**asked, "random_access": random_access}))
        print(f"{options.processes} processes at once:")
        running = [in_process("look up", **{**asked, "wait": True}) for _ in range(options.processes)]
        for process in running:
            result(process)
        for first in (0, changed, 2 * changed):
            print(f"update of {changed:,} keys:")
            result(in_process("update", path=str(path), first=first, last=first + changed))
        print(f"update of {changed:,} keys that are new:")
        result(in_process("update", path=str(path), first=count, last=count + changed))
        print("a session afterwards:")
        result(in_process("look up", **{**asked, "changed": 3 * changed}))
        begun = time.perf_counter()
        onnx_sparse.tables(path, check=True)
        print(f"tables --check: {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
