"""Several processes that serve the same models at the same ports."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import TYPE_CHECKING

from onnx_sparse.serving.settings import Settings, StartError

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

#: As in `metrics`, which this process does not import.
_METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
#: Beyond the time in which a worker is to end, in seconds.
_PATIENCE = 5
#: A worker that ends sooner after its start than this is not started again at once, in seconds.
_SHORT_LIFE = 5.0


@dataclass(frozen=True)
class _Worker:
    """A process that serves.

    Attributes:
        process: The process.
        reader: Where the process writes, once, why it cannot start, or nothing when it answers requests. A worker that
            cannot write ends, so this stays open for as long as the worker lives.
        born: When it was started.
    """

    process: SpawnProcess
    reader: Connection
    born: float = field(default_factory=time.monotonic)


class Workers:
    """Processes that serve.

    Args:
        settings: How models are served.
        sock: The bound socket of HTTP, which all listen to.
        count: How many.
        log: Called with what happens to workers.
    """

    def __init__(self, settings: Settings, sock: socket.socket, count: int, log: Callable[[str], None]) -> None:
        self._settings, self._sock, self._count, self._log = settings, sock, count, log
        self._context = multiprocessing.get_context("spawn")
        self._workers: dict[int, _Worker] = {}
        self._ending = False

    def serve(self, started: Callable[[], None]) -> None:
        """Serve until SIGTERM or SIGINT, which the workers get, too; a worker that ends before is replaced.

        Args:
            started: Called when all workers answer requests.

        Raises:
            StartError: A worker could not start.
        """
        folder = tempfile.mkdtemp(prefix="onnx_sparse_metrics_")
        os.environ[_METRICS_VARIABLE] = folder
        before = {number: signal.signal(number, self._signaled) for number in _signals()}
        try:
            for worker in [self._start() for _ in range(self._count)]:
                self._await_start(worker.reader)
            if not self._ending:
                started()
            while not self._ending:
                self._replace_ended()
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)
            del os.environ[_METRICS_VARIABLE]
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self) -> _Worker:
        reader, writer = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(self._settings, self._sock, writer))
        process.start()
        writer.close()
        assert process.pid is not None
        worker = self._workers[process.pid] = _Worker(process, reader)
        return worker

    def _await_start(self, reader: Connection) -> None:
        try:
            while not reader.poll(0.2):  # a signal may end all
                if self._ending:
                    return
            problem = reader.recv()
        except EOFError:
            problem = "a worker ended while it started (is there enough memory?)"
        if problem and not self._ending:
            raise StartError(problem)

    def _replace_ended(self) -> None:
        sentinels = {worker.process.sentinel: pid for pid, worker in self._workers.items()}
        for sentinel in wait([*sentinels], timeout=0.5):
            pid = sentinels[sentinel]  # type: ignore[index]  # a sentinel is what was given
            worker = self._workers.pop(pid)
            if self._ending:
                return
            worker.process.join()  # else its status may not be known yet
            code = worker.process.exitcode or 0
            ended = signal.Signals(-code).name if code < 0 else f"status {code}"
            self._log(f"worker {pid} ended by {ended}{_told(worker.reader)}; another one starts")
            _forget(pid)
            if time.monotonic() - worker.born < _SHORT_LIFE:
                time.sleep(1)
            self._start()

    def _signaled(self, number: int, _: FrameType | None) -> None:
        if number != getattr(signal, "SIGHUP", None):
            self._ending = True
        self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        for pid, worker in self._workers.items():
            if worker.process.is_alive():
                os.kill(pid, number)

    def _end(self) -> None:
        """End the workers: each answers its requests in flight."""
        self._pass_on(signal.SIGTERM)
        end = time.monotonic() + self._settings.drain_seconds + self._settings.stop_seconds + _PATIENCE
        for process in [worker.process for worker in self._workers.values()]:
            process.join(max(end - time.monotonic(), 0))
            if process.is_alive():
                process.kill()
                process.join()


def _signals() -> list[signal.Signals]:
    return [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]


def _told(reader: Connection) -> str:
    """What an ended worker wrote of its start, as the end of a sentence."""
    with reader, suppress(EOFError):
        if reader.poll() and (problem := reader.recv()):
            return f": {problem}"
    return ""


def _forget(pid: int) -> None:
    """Take an ended worker out of what is counted of living ones."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _work(settings: Settings, sock: socket.socket, writer: Connection) -> None:
    """A worker's whole life."""
    from onnx_sparse.serving.log import log_to_stderr
    from onnx_sparse.serving.server import serve

    log_to_stderr(settings.log_format, settings.log_level)
    try:
        serve(settings, sock, lambda: writer.send(""))
    except StartError as error:
        writer.send(str(error))
        raise SystemExit(1) from None
