"""Requests to models: counted for Prometheus, and logged if that is asked for."""

from __future__ import annotations

import logging
import re
from time import perf_counter

from onnx_sparse.serving import metrics
from onnx_sparse.serving.log import VALUES

_log = logging.getLogger("onnx_sparse.serving")

#: What is logged and repeated of ids that clients send: no end of a line, no blank, nothing long.
_ID = re.compile(r"[!-~]{1,128}")


def known_id(text: str) -> str:
    """The id of a request, as its client sent it; empty if it is none that can be logged."""
    return text if _ID.fullmatch(text) else ""


class Requests:
    """The requests that have been answered.

    Args:
        logs: Whether each is logged.
    """

    def __init__(self, *, logs: bool) -> None:
        self._logs = logs

    def answered(self, model: str, protocol: str, status: int, begun: float, identifier: str) -> None:
        """Count a request to a model.

        Args:
            model: The model.
            protocol: `v2`, `rows` or `grpc`.
            status: The HTTP status.
            begun: When it was there.
            identifier: What its client calls it.
        """
        seconds = perf_counter() - begun
        metrics.REQUESTS.labels(model, protocol, str(status)).inc()
        metrics.SECONDS.labels(model, protocol).observe(seconds)
        if self._logs:
            identifier, took = known_id(identifier), round(seconds * 1000, 1)
            values = {"model": model, "protocol": protocol, "status": status, "milliseconds": took, "id": identifier}
            text = "model %s: %s %d, %.1f ms, id %s"
            _log.info(text, model, protocol, status, took, identifier or "-", extra={VALUES: values})
