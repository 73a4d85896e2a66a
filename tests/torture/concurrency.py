"""Sessions under concurrency: every request must get its own answer or its own error, and no process may die.

Run for a time, on every backend: `python tests/torture/concurrency.py --seconds 600 --seed 1`. The suite runs a part.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # where this is run as a program

import numpy as np
import onnxruntime as ort
from onnx import numpy_helper, parser
from support import program

import onnx_sparse
from onnx_sparse.sessions.runtime import available_backends

#: Two nodes that ONNX Runtime may execute at the same time, and a third after them.
MODEL = parser.parse_model(
    """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g (float[k,2] data, int64[k] ids) => (float[s,2] y, float[s,2] z) {
      a = onnx_sparse.SegmentSum (data, ids)
      b = onnx_sparse.SegmentMax <fill_mode = "ZERO"> (data, ids)
      y = Add (a, b)
      z = onnx_sparse.UnsortedSegmentMin (data, ids, n)
    }"""
)
MODEL.graph.initializer.append(numpy_helper.from_array(np.array(3), "n"))

ROWS = 12
PATIENCE = 120


@dataclass(frozen=True)
class Request:
    """A request whose answer, and whose error, no other request has.

    Attributes:
        number: Identifies it; below 2^20, so that the sums are exact.
        kind: `legal`; `illegal`, which a kernel refuses; or `misfit`, which ONNX Runtime refuses.
    """

    number: int
    kind: str

    @classmethod
    def drawn(cls, source: random.Random, number: int) -> Request:
        return cls(number, source.choices(["legal", "illegal", "misfit"], [6, 3, 1])[0])

    @property
    def feeds(self) -> dict[str, Any]:
        data = np.full((ROWS, 3 if self.kind == "misfit" else 2), self.number, np.float32)
        ids = np.repeat(np.arange(3), ROWS // 3)
        if self.kind == "illegal":
            ids[-1] = -self.number - 1
        return {"data": data, "ids": ids}

    def fault(self, results: Any, error: str) -> str:
        """What is wrong with its answer; "" for the right one."""
        if self.kind == "misfit":
            return "" if "invalid dimensions" in error or "Got: 3 Expected: 2" in error else f"misfit: {error!r}"
        if self.kind == "illegal":
            return "" if f"= {-self.number - 1} must be >= 0" in error else f"illegal {self.number}: {error!r}"
        if error:
            return f"legal {self.number}: {error!r}"
        y, z = results
        right = (y == self.number * (ROWS // 3 + 1)).all() and (z == self.number).all() and y.shape == z.shape == (3, 2)
        return "" if right else f"legal {self.number}: {y.tolist()}, {z.tolist()}"


@dataclass
class Tally:
    """What was done, and the first faults."""

    done: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str, fault: str = "") -> None:
        with self._lock:
            self.done[what] += 1
            if fault:
                self.done["wrong"] += 1
                if len(self.faults) < 20:
                    self.faults.append(f"{what}: {fault}")


def open_session(backend: str, *, parallel: bool = False, threads: int = 2) -> onnx_sparse.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if parallel:
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return onnx_sparse.InferenceSession(MODEL, options, backend=backend)


def run_one(session: onnx_sparse.InferenceSession, request: Request, way: str) -> str:
    """Run a request in one of the ways that wait for the answer; returns its fault."""
    results, error = None, ""
    try:
        if way == "run":
            results = session.run(None, request.feeds)
        elif way == "ort values":
            values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in request.feeds.items()}
            results = [value.numpy() for value in session.run_with_ort_values(["y", "z"], values)]
        else:
            binding = session.io_binding()
            feeds = request.feeds
            for name, array in feeds.items():
                binding.bind_cpu_input(name, array)
            binding.bind_output("y")
            binding.bind_output("z")
            session.run_with_iobinding(binding)
            results = binding.copy_outputs_to_cpu()
    except Exception as raised:
        error = str(raised)
    return request.fault(results, error)


def callbacks(backend: str, tally: Tally, source: random.Random, count: int) -> None:
    """Many asynchronous requests, some of them illegal, with few and with many waiting at a time."""
    for waiting in (2, 8, 400):
        parallel = source.random() < 0.5
        shared = ort.RunOptions() if source.random() < 0.3 else None
        session = open_session(backend, parallel=parallel, threads=source.choice([2, 3, 5]))
        free = threading.Semaphore(waiting)
        what = f"callbacks, {backend}"

        def callback(
            results: Any, request: Request, error: str, free: threading.Semaphore = free, what: str = what
        ) -> None:
            tally.add(what, request.fault(results, error))
            free.release()

        for _ in range(count // 3):
            request = Request.drawn(source, source.randrange(2**20))
            assert free.acquire(timeout=PATIENCE), "a callback never came"
            try:
                session.run_async(None, request.feeds, callback, request, shared)
            except Exception as error:  # what ONNX Runtime refuses before it runs
                callback(None, request, str(error))
        for _ in range(waiting):
            assert free.acquire(timeout=PATIENCE), "a callback never came"


def threads(backend: str, tally: Tally, source: random.Random, count: int) -> None:
    """Threads that share sessions, make new ones and drop them."""
    shared = [open_session(backend, parallel=parallel) for parallel in (False, True)]

    def work(seed: int) -> None:
        own = random.Random(seed)
        for _ in range(count // 8):
            session = open_session(backend, parallel=own.random() < 0.3) if own.random() < 0.05 else own.choice(shared)
            request = Request.drawn(own, own.randrange(2**20))
            tally.add(
                f"threads, {backend}", run_one(session, request, own.choice(["run", "run", "ort values", "binding"]))
            )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [source.randrange(2**32) for _ in range(8)]))


def _requests_in_child(backend: str, seed: int) -> list[str]:
    """The faults of a few requests in this process, on a session of its own."""
    own = random.Random(seed)
    session = open_session(backend, parallel=own.random() < 0.5)
    faults = [run_one(session, Request.drawn(own, own.randrange(2**20)), "run") for _ in range(10)]
    return [fault for fault in faults if fault]


_PARENT_PROGRAM = """
import json, random, sys
from torture.concurrency import Tally, work_in_children
tally = Tally()
work_in_children(sys.argv[1], tally, random.Random(int(sys.argv[2])), int(sys.argv[3]))
print(json.dumps([tally.done, tally.faults]))
"""


def processes(backend: str, tally: Tally, source: random.Random, count: int) -> None:
    """`work_in_children` in a process of its own: this one may have threads that hold locks when it forks."""
    parent = _child(_PARENT_PROGRAM, backend, str(source.randrange(2**32)), str(count))
    out, err = parent.communicate(timeout=2 * PATIENCE)
    done, faults = json.loads(out) if parent.returncode == 0 else ({}, [f"exit {parent.returncode}: {err[-500:]}"])
    tally.done.update(done)
    tally.faults.extend(faults)


def work_in_children(backend: str, tally: Tally, source: random.Random, count: int) -> None:
    """Children that are forked while a session lives, and spawned while a thread runs it.

    None is forked beside that thread: a lock of ONNX Runtime's that it holds just then stays locked in the child.
    """
    session = open_session(backend)
    stop = threading.Event()

    def keep_busy() -> None:
        own = random.Random(1)
        while not stop.is_set():
            tally.add(f"beside children, {backend}", run_one(session, Request.drawn(own, own.randrange(2**20)), "run"))

    def work_in_pool(method: str, size: int) -> None:
        with multiprocessing.get_context(method).Pool(size) as pool:
            jobs = [pool.apply_async(_requests_in_child, (backend, source.randrange(2**32))) for _ in range(count)]
            for job in jobs:
                tally.add(f"{method}ed children, {backend}", "; ".join(job.get(PATIENCE)))

    work_in_pool("fork", 2)
    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        work_in_pool("spawn", 1)
    finally:
        stop.set()
        busy.join()


_INTERRUPTED_PROGRAM = """
import random, sys
from torture.concurrency import Request, open_session, run_one
backend, count = sys.argv[1], int(sys.argv[2])
source, faults = random.Random(1), []
session = open_session(backend)
while count:
    try:
        print("ready", flush=True)  # the next interrupt comes after this
        while True:
            faults.append(run_one(session, Request.drawn(source, source.randrange(2**20)), "run"))
    except KeyboardInterrupt:
        count -= 1
print(len(faults), *filter(None, faults), flush=True)
"""


def interrupts(backend: str, tally: Tally, source: random.Random, count: int) -> None:
    """Ctrl-C at random times: it is raised in Python, the session stays usable and the process alive."""
    child = _child(_INTERRUPTED_PROGRAM, backend, str(count))
    assert child.stdout is not None
    deadline = threading.Timer(PATIENCE, child.kill)  # an interrupt that is lost would be waited for
    deadline.start()
    for _ in range(count):
        if child.stdout.readline() != "ready\n":
            break
        time.sleep(source.uniform(0, 0.01))
        child.send_signal(signal.SIGINT)
        tally.done[f"interrupts, {backend}"] += 1
    out, err = child.communicate(timeout=PATIENCE)
    deadline.cancel()
    fault = f"exit {child.returncode}: {err[-500:]}" if child.returncode else ""
    runs, *faults = out.split(maxsplit=1) if not fault else ("0",)
    tally.add(f"interrupted processes, {backend}", fault or "".join(faults))
    tally.done[f"runs between interrupts, {backend}"] += int(runs)


_ENDING_PROGRAM = """
import random, sys, threading
from torture.concurrency import Request, open_session, run_one
backend, seed = sys.argv[1], int(sys.argv[2])
source, answers = random.Random(seed), []
sessions = [open_session(backend, parallel=source.random() < 0.5) for _ in range(source.randrange(1, 4))]

def callback(results, request, error):
    answers.append(request.fault(results, error))
    if source.random() < 0.01:
        print("told", flush=True)

for session in sessions:
    for _ in range(source.choice([1, 50])):
        request = Request(source.randrange(2**20), source.choice(["legal", "illegal"]))
        session.run_async(None, request.feeds, callback, request)
if source.random() < 0.5:
    del session, sessions
if source.random() < 0.3:
    threading.Thread(target=lambda: answers.append("")).start()
how = source.random()
if how < 0.3:
    sys.exit(0)
if how < 0.4:
    import atexit
    atexit.register(lambda: run_one(open_session(backend), Request(1, "legal"), "run"))
"""


def endings(backend: str, tally: Tally, source: random.Random, count: int) -> None:
    """Python ends while sessions live and callbacks are to come."""
    for _ in range(count):
        child = _child(_ENDING_PROGRAM, backend, str(source.randrange(2**32)))
        _, err = child.communicate(timeout=PATIENCE)
        fault = f"exit {child.returncode}: {err[-500:]}" if child.returncode or err else ""
        tally.add(f"ended processes, {backend}", fault)


def _child(program: str, *arguments: str) -> subprocess.Popen[str]:
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def lifetimes(backend: str, tally: Tally, source: random.Random, count: int) -> None:
    """Sessions made, used once and dropped, one of them with a request on its way."""
    for _ in range(count):
        session = open_session(backend, parallel=source.random() < 0.3)
        request = Request.drawn(source, source.randrange(2**20))
        if source.random() < 0.5:
            tally.add(f"sessions, {backend}", run_one(session, request, "run"))
            continue
        answered = threading.Event()

        def callback(results: Any, request: Request, error: str, answered: threading.Event = answered) -> None:
            tally.add(f"sessions, {backend}", request.fault(results, error))
            answered.set()

        try:
            session.run_async(None, request.feeds, callback, request)
        except Exception as error:
            callback(None, request, str(error))
        del session
        assert answered.wait(PATIENCE), "a callback never came"


def rounds(source: random.Random, backends: tuple[str, ...]) -> Iterator[Callable[[Tally], None]]:
    """The scenarios again and again, each on each backend."""
    while True:
        for backend in backends:
            yield lambda tally, b=backend: callbacks(b, tally, source, 6_000)
            yield lambda tally, b=backend: threads(b, tally, source, 1_600)
            yield lambda tally, b=backend: lifetimes(b, tally, source, 200)
            yield lambda tally, b=backend: processes(b, tally, source, 4)
            yield lambda tally, b=backend: interrupts(b, tally, source, 500)
            yield lambda tally, b=backend: endings(b, tally, source, 5)


def main() -> int:
    parsed = program.parser(__doc__, seconds=60.0, seed=0)
    parsed.add_argument("--backend", choices=available_backends(), action="append")
    arguments = parsed.parse_args()
    tally = Tally()
    end = time.monotonic() + arguments.seconds
    for scenario in rounds(random.Random(arguments.seed), tuple(arguments.backend or available_backends())):
        if time.monotonic() > end or len(tally.faults) >= 20:
            break
        scenario(tally)
    return program.tell(tally.done, tally.faults)


if __name__ == "__main__":
    sys.exit(main())
