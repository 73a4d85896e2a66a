"""Runs that end when their time is up, so that one request does not keep a model from all others."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime as ort

from onnx_sparse.rows.columns import Array


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

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Any]:
        """The outputs; see `onnxruntime.InferenceSession`."""
        running = ort.RunOptions(), time.monotonic() + (self.seconds or float("inf"))
        with self._lock:
            self._running.append(running)
        try:
            return list(self._session.run(names, dict(feeds), running[0]))
        finally:
            with self._lock:
                self._running.remove(running)

    def end_late_runs(self) -> None:
        """End the runs whose time is up: ONNX Runtime looks at their options before each node."""
        with self._lock:
            for options, end in self._running:
                if end < time.monotonic():
                    options.terminate = True


def is_ended(error: Exception) -> bool:
    """Whether a run failed because its time was up."""
    return "terminate flag" in str(error)
