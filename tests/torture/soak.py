"""Runs and sessions by the million: memory stays flat, on every backend.

`python tests/torture/soak.py` makes 10^6 runs and 10^4 sessions on each backend, or as many as `--seconds` for each of
the four allow, and prints a table. The suite runs a part. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, parser

import onnx_sparse
from onnx_sparse.sessions.runtime import available_backends

#: What memory may grow by, in bytes.
TOLERANCE = 2 << 20

#: An illegal request among so many.
_ILLEGAL_EVERY = 100
_SAMPLES = 10


def make_model() -> ModelProto:
    """Lookups, sums and filled rows: kernels that allocate, and outputs of many sizes."""
    return parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
        g (float[v,w] table, int64[k] indices, int64[k] ids, int64[k,2] at, int64[2] shape, float[k] values) => (
          float[s,w] y, int64[n,2] filled_at, float[n] filled
        ) {
          y = onnx_sparse.SegmentSum (rows, ids)
          rows = Gather (table, indices)
          zero = Constant <value = float {0}> ()
          filled_at, filled, empty, order =
            onnx_sparse.SparseFillEmptyRows <order = "row_major"> (values, shape, at, zero)
        }"""
    )


def make_feeds(random: np.random.Generator, illegal: bool = False) -> dict[str, np.ndarray]:
    """A request of a random size."""
    count, rows = int(random.integers(0, 60)), int(random.integers(1, 40))
    ids = np.sort(random.integers(0, rows, count))
    if illegal:
        ids = np.array([1, 0])
        count = 2
    at = np.stack([random.integers(0, rows, count), random.integers(0, 9, count)], axis=1)
    return {
        "table": np.ones((10, 8), np.float32),
        "indices": random.integers(0, 10, count),
        "ids": ids,
        "at": at,
        "shape": np.array([rows, 9]),
        "values": np.ones(count, np.float32),
    }


@dataclass(frozen=True)
class Result:
    """What was done, and the memory meanwhile.

    Attributes:
        count: Runs or sessions.
        seconds: How long they took.
        memory: The resident bytes, from the end of the first tenth on.
    """

    count: int
    seconds: float
    memory: list[int]

    @property
    def growth(self) -> int:
        """The bytes by which memory has grown at the end."""
        return self.memory[-1] - self.memory[0]


def resident() -> int:
    """The bytes that this process has in memory, after what is free has been given back."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(step: Callable[[int], None], count: int, seconds: float) -> Result:
    """Repeat a step, and look at the memory ten times."""
    begun, memory, done = time.monotonic(), [], 0
    for sample in range(1, _SAMPLES + 1):
        end = begun + seconds * sample / _SAMPLES
        while done < count * sample // _SAMPLES and time.monotonic() < end:
            step(done)
            done += 1
        memory.append(resident())
    return Result(done, time.monotonic() - begun, memory)


def make_options(backend: str) -> ort.SessionOptions:
    options = onnx_sparse.session_options(backend)
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def run_once(session: onnx_sparse.InferenceSession, feeds: dict[str, np.ndarray], *, illegal: bool) -> None:
    try:
        (y, *_) = session.run(None, feeds)
    except onnx_sparse.KernelError:
        if not illegal:
            raise
    else:
        assert not illegal
        assert y.sum() == feeds["ids"].size * 8


def soak_runs(backend: str, count: int, seconds: float, seed: int) -> Result:
    """Runs of one session, legal and illegal."""
    random = np.random.default_rng(seed)
    requests = [make_feeds(random, illegal=number % _ILLEGAL_EVERY == 0) for number in range(1000)]
    session = onnx_sparse.InferenceSession(make_model().SerializeToString(), make_options(backend), backend=backend)

    def step(number: int) -> None:
        run_once(session, requests[number % len(requests)], illegal=number % _ILLEGAL_EVERY == 0)

    return soak(step, count, seconds)


def soak_sessions(backend: str, count: int, seconds: float, seed: int) -> Result:
    """Sessions that are made, run and dropped."""
    model, feeds = make_model().SerializeToString(), make_feeds(np.random.default_rng(seed))
    # onnxruntime-extensions keeps a list of all operators for each SessionOptions with which it is registered: 18 KB.
    kept = make_options(backend) if backend == "python" else None

    def step(_: int) -> None:
        session = onnx_sparse.InferenceSession(model, kept or make_options(backend), backend=backend)
        run_once(session, feeds, illegal=False)

    return soak(step, count, seconds)


KINDS = {"runs": soak_runs, "sessions": soak_sessions}


def in_a_process(kind: str, backend: str, count: int, seconds: float, seed: int = 0) -> Result:
    """Soak in a process of its own, so that none sees what another has left."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(KINDS[kind], (backend, count, seconds, seed))


def main() -> int:
    parsed = argparse.ArgumentParser(description=__doc__)
    parsed.add_argument("--runs", type=int, default=10**6)
    parsed.add_argument("--sessions", type=int, default=10**4)
    parsed.add_argument("--seconds", type=float, default=3600, help="for each kind on each backend")
    parsed.add_argument("--seed", type=int, default=0)
    parsed.add_argument("--backend", choices=available_backends(), action="append")
    arguments = parsed.parse_args()
    grown = False
    sys.stdout.write("backend   what        count   minutes   MB at start   MB at end\n")
    for backend in arguments.backend or available_backends():
        for kind in KINDS:
            result = in_a_process(kind, backend, getattr(arguments, kind), arguments.seconds, arguments.seed)
            first, last = result.memory[0] / 2**20, result.memory[-1] / 2**20
            sys.stdout.write(
                f"{backend:8}  {kind:8}  {result.count:>7}  {result.seconds / 60:8.1f}  {first:12.1f}  {last:10.1f}\n"
            )
            sys.stdout.flush()
            grown |= result.growth > TOLERANCE
    return grown


if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/")[0] + "/..")
    from torture import soak as module  # under the name that its processes import

    sys.exit(module.main())
