"""Several workers: the same answers, one copy of the tables, and an end with all requests answered."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.baskets import model
from support.serving_client import Server, serving

import onnx_sparse

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc"),
]


def children(pid: int) -> list[int]:
    """The workers: children that map ONNX Runtime."""
    found = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in found if "onnxruntime" in Path(f"/proc/{child}/maps").read_text()]


def large_model(path: Path, rows: int) -> None:
    """The model of baskets with a large table in a file of its own."""
    made = model()
    table = next(tensor for tensor in made.graph.initializer if tensor.name == "table")
    table.CopyFrom(onnx.numpy_helper.from_array(np.arange(2 * rows, dtype=np.float32).reshape(rows, 2), "table"))
    onnx.save(made, path, save_as_external_data=True, location="tables", size_threshold=1024)


def mapped(pid: int, name: str) -> dict[str, int]:
    """What a process holds of a mapped file, in kB by kind."""
    held: dict[str, int] = {}
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            inside = words[-1].endswith(f"/{name}")
        elif inside and len(words) > 2 and words[2] == "kB":
            held[words[0]] = held.get(words[0], 0) + int(words[1])
    return held


def ask_all(server: Server, path: Path, count: int = 200) -> None:
    session = onnx_sparse.InferenceSession(path)
    feeds = onnx_sparse.features(session).feeds({"items": [[1, 2], [8]], "path": [[3], []], "box": [[0, 0], [1, 1]]})
    expected = [array.tobytes() for array in session.run(None, feeds)]

    def ask(_: int) -> list[bytes]:
        client = server.client()
        try:
            return [array.tobytes() for array in client.infer(path.stem, feeds).outputs().values()]
        finally:
            client.close()

    with ThreadPoolExecutor(16) as threads:
        assert all(got == expected for got in threads.map(ask, range(count)))


def kill(server: Server, pid: int) -> None:
    """End a worker, and wait until another one has its place."""
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while len(now := children(server.process.pid)) < 2 or pid in now:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_workers_share_tables_and_a_dead_one_is_replaced(tmp_path):
    path = tmp_path / "baskets.onnx"
    large_model(path, 4_000_000)
    with serving(path, options=["--workers", "2"]) as server:
        workers = children(server.process.pid)
        assert len(workers) == 2
        ask_all(server, path)
        for pid in workers:
            held = mapped(pid, "tables")
            assert held["Size:"] >= 32_000_000 // 1024, "the table is not mapped"
            assert held["Private_Dirty:"] == 0
        metrics = server.client().get("/metrics").body.decode()
        counted = [line for line in metrics.splitlines() if line.startswith("onnx_sparse_requests_total{")]
        assert sum(float(line.split()[-1]) for line in counted) == 200, "each worker knows the requests of all"
        for pid in workers:
            kill(server, pid)  # the second time, the new worker is the only one that answers at once
            now = children(server.process.pid)
            ask_all(server, path, 20)
            assert set(now) == set(children(server.process.pid)), "a new worker ended"
        assert server.stop() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in now)


def test_workers_end_with_the_process_that_started_them(tmp_path):
    path = tmp_path / "baskets.onnx"
    onnx.save(model(), path)
    with serving(path, options=["--workers", "2"]) as server:
        workers = children(server.process.pid)
        server.process.kill()
        end = time.monotonic() + 30
        while any(Path(f"/proc/{pid}").exists() for pid in workers):
            assert time.monotonic() < end
            time.sleep(0.1)
