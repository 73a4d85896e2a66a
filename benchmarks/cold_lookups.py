"""Lookups in a table that is not in memory, with and without `random_access`.

    python benchmarks/cold_lookups.py [--gigabytes 4] [--folder DIR] [--batches 20]

Every batch looks up 2,000 rows of 64 floats, drawn at random. Each line is a session: the median time of a batch and
how much it read from disk. The table's file is dropped from the system's cache before each session. On Linux; run it in
a memory limit (`systemd-run --scope -p MemoryMax=1G ...`) to time a table larger than memory; the ordinary session then
takes minutes.
"""

from __future__ import annotations

import os
import re
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import this_machine
from onnx import ModelProto, TensorProto, helper
from runner import parser

import onnx_sparse

_WIDTH = 64
_ROWS_AT_ONCE = 1 << 20
_LOOKED_UP = 2000


def make_model(folder: Path, rows: int) -> Path:
    """A lookup in a table of random numbers beside the model."""
    rng = np.random.default_rng(0)
    with (folder / "model.onnx.data").open("wb") as file:
        for first in range(0, rows, _ROWS_AT_ONCE):
            rng.random((min(_ROWS_AT_ONCE, rows - first), _WIDTH), np.float32).tofile(file)
        os.fsync(file.fileno())
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[rows, _WIDTH])
    table.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "model.onnx.data"), ("offset", "0"), ("length", str(rows * _WIDTH * 4))):
        table.external_data.add(key=key, value=value)
    node = helper.make_node("EmbeddingBagOffsetsSum", ["table", "ids", "offsets"], ["sums"], domain="onnx_sparse")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [None]) for name in ("ids", "offsets")]
    output = helper.make_tensor_value_info("sums", TensorProto.FLOAT, [None, _WIDTH])
    graph = helper.make_graph([node], "lookup", inputs, [output], [table])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    model: ModelProto = helper.make_model(graph, ir_version=10, opset_imports=imports)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def drop_from_cache(path: Path) -> None:
    """Drop a file from the system's cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bytes_read() -> int:
    """What this process has read from disk."""
    found = re.search(r"^read_bytes: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def time_batches(path: Path, rows: int, count: int, *, random_access: bool) -> tuple[float, float]:
    """The median time of a batch in seconds, and how many bytes each read on the average."""
    session = onnx_sparse.InferenceSession(path, random_access=random_access)
    rng = np.random.default_rng(1)
    seconds, before = [], bytes_read()
    for _ in range(count):
        feeds = {"ids": rng.integers(0, rows, _LOOKED_UP), "offsets": np.arange(0, _LOOKED_UP, 20)}
        begun = time.perf_counter()
        session.run(None, feeds)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds), (bytes_read() - before) / count


def main() -> None:
    """Time the batches of both sessions."""
    made = parser(__doc__, gigabytes=4.0)
    made.add_argument("--folder", type=Path, help="where the table is written (default: the temporary folder)")
    made.add_argument("--batches", type=int, default=20)
    options = made.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rows = int(options.gigabytes * 2**30) // (_WIDTH * 4)
        path = make_model(Path(folder), rows)
        print(f"{this_machine()}\n{rows:,} rows of {_WIDTH} floats, {_LOOKED_UP:,} looked up in a batch")
        for random_access in (False, True):
            drop_from_cache(path.with_name("model.onnx.data"))
            seconds, read = time_batches(path, rows, options.batches, random_access=random_access)
            print(f"random_access={random_access!s:5} {seconds * 1e3:9.1f} ms, {read / 2**20:8.1f} MiB read")


if __name__ == "__main__":
    main()
