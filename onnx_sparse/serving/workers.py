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
        self._workers: dict[int, tuple[SpawnProcess, float]] = {}
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
            readers = [self._start() for _ in range(self._count)]
            for reader in readers:
                self._await_start(reader)
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

    def _start(self) -> Connection:
        reader, writer = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(self._settings, self._sock, writer))
        process.start()
        writer.close()
        assert process.pid is not None
        self._workers[process.pid] = process, time.monotonic()
        return reader

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
        sentinels = {process.sentinel: pid for pid, (process, _) in self._workers.items()}
        for sentinel in wait([*sentinels], timeout=0.5):
            pid = sentinels[sentinel]  # type: ignore[index]  # a sentinel is what was given
            process, born = self._workers.pop(pid)
            if self._ending:
                return
            code = process.exitcode or 0
            ended = signal.Signals(-code).name if code < 0 else f"status {code}"
            self._log(f"worker {pid} ended by {ended}; another one starts")
            _forget(pid)
            if time.monotonic() - born < _SHORT_LIFE:
                time.sleep(1)
            self._start()

    def _signaled(self, number: int, _: FrameType | None) -> None:
        if number != getattr(signal, "SIGHUP", None):
            self._ending = True
        self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        for process, _ in self._workers.values():
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, number)

    def _end(self) -> None:
        """End the workers: each answers its requests in flight."""
        self._pass_on(signal.SIGTERM)
        end = time.monotonic() + self._settings.drain_seconds + self._settings.stop_seconds + _PATIENCE
        for process, _ in self._workers.values():
            process.join(max(end - time.monotonic(), 0))
            if process.is_alive():
                process.kill()
                process.join()


def _signals() -> list[signal.Signals]:
    return [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]


def _forget(pid: int) -> None:
    """Take an ended worker out of what is counted of living ones."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _work(settings: Settings, sock: socket.socket, writer: Connection) -> None:
    """A worker's whole life."""
    from onnx_sparse.serving.server import log_to_stderr, serve

    log_to_stderr()
    try:
        serve(settings, sock, lambda: writer.send(""))
    except StartError as error:
        writer.send(str(error))
        raise SystemExit(1) from None
