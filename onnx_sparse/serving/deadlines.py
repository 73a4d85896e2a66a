"""Runs that end when their time is up, so that one request does not keep a model from all others."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime as ort

from onnx_sparse.rows.columns import Array


class TimedSession:
    """A session whose runs, one after another, have a deadline.

    Args:
        session: The session; all but its runs are its own.
        seconds: How long a run may take; 0 for any time.
    """

    def __init__(self, session: ort.InferenceSession, seconds: float) -> None:
        self._session, self.seconds = session, seconds
        self._lock = threading.Lock()
        self._current: tuple[ort.RunOptions, float] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Any]:
        """The outputs; see `onnxruntime.InferenceSession`."""
        options = ort.RunOptions()
        with self._lock:
            self._current = options, time.monotonic() + (self.seconds or float("inf"))
        return list(self._session.run(names, dict(feeds), options))

    def end_late_run(self) -> None:
        """End the run if its time is up: ONNX Runtime looks at its options before each node."""
        with self._lock:
            if self._current is not None and self._current[1] < time.monotonic():
                self._current[0].terminate = True


def is_ended(error: Exception) -> bool:
    """Whether a run failed because its time was up."""
    return "terminate flag" in str(error)
