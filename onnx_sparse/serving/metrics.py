"""What a server counts, for Prometheus.

The variable PROMETHEUS_MULTIPROC_DIR must be set before this module is imported if several processes serve; then each
of them answers with the sums of all.
"""

from __future__ import annotations

import os

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import generate_latest as _latest
from prometheus_client.multiprocess import MultiProcessCollector

#: The variable that names the folder in which processes share their figures.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
#: The type of the text, for its header.
CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

REQUESTS = Counter(
    "onnx_sparse_requests_total", "Requests for answers of a model, by HTTP status.", ["model", "protocol", "status"]
)
SECONDS = Histogram(
    "onnx_sparse_request_seconds", "Time from the whole request to its answer.", ["model", "protocol"], buckets=_SECONDS
)
BATCHES = Histogram(
    "onnx_sparse_batch_requests", "Requests of a run.", ["model"], buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256)
)
RUN_SECONDS = Histogram("onnx_sparse_run_seconds", "Time of a run.", ["model"], buckets=_SECONDS)
WAITING = Gauge("onnx_sparse_waiting_requests", "Requests that wait for a run.", ["model"], multiprocess_mode="livesum")
RELOADS = Counter("onnx_sparse_reloads_total", "Times that a changed model was read.", ["model", "result"])


def text() -> bytes:
    """All figures in Prometheus' text format."""
    if FOLDER_VARIABLE not in os.environ:
        return bytes(_latest(REGISTRY))
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return bytes(_latest(registry))
