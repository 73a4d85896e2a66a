"""Runs that end when their time is up, so that one request does not keep a model from all others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import onnxruntime as ort

from onnx_sparse.rows.columns import Array

#: The least time that a run of its own gets, in seconds.
SHORTEST = 0.01


class TimedSession:
    """A session whose runs have a deadline.

    Args:
        session: The session; all but its runs are its own.
        seconds: How long a run may take; 0 for any time.
    """

    def __init__(self, session: ort.InferenceSession, seconds: float) -> None:
        self._session, self.seconds = session, seconds
        self._lock = threading.Lock()
        self._running: list[tuple[ort.RunOptions, float]] = []
        self._of_thread = threading.local()
        self._is_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @contextmanager
    def requests(self, count: int, seconds: float) -> Iterator[None]:
        """Runs of so many requests, in this thread: together, and then each by itself if that fails.

        If their time was up together, all have half of that time once more: what does not take long is answered.

        Args:
            count: How many.
            seconds: How long a run may take; 0 for any time.
        """
        self._of_thread.count, self._of_thread.seconds, self._of_thread.first = count, 0.0, seconds
        try:
            yield
        finally:
            self._of_thread.count = 0

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Any]:
        """The outputs; see `onnxruntime.InferenceSession`."""
        own, count = self._of_thread, getattr(self._of_thread, "count", 0)
        seconds = (own.seconds or own.first) if count else self.seconds
        running = ort.RunOptions(), time.monotonic() + (seconds or float("inf"))
        with self._lock:
            self._running.append(running)
            running[0].terminate = self._is_over
        try:
            return list(self._session.run(names, dict(feeds), running[0]))
        except Exception as error:
            if count > 1 and is_ended(error):
                own.seconds = max(own.first / 2 / count, SHORTEST)
            raise
        finally:
            with self._lock:
                self._running.remove(running)

    def end_late_runs(self) -> None:
        """End the runs whose time is up: ONNX Runtime looks at their options before each node."""
        with self._lock:
            for options, end in self._running:
                if end < time.monotonic():
                    options.terminate = True

    def end_runs(self) -> None:
        """End all runs, and those that are begun later: nobody waits for their answers."""
        with self._lock:
            self._is_over = True
            for options, _ in self._running:
                options.terminate = True


def is_ended(error: Exception) -> bool:
    """Whether a run failed because its time was up."""
    return "terminate flag" in str(error)
