"""What is said of the runs of a contender: percentiles of the latency, and rows per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

#: The percentiles of the latency.
_PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Line:
    """The runs of one contender on batches of one size, with one number of threads.

    Attributes:
        contender: `onnx_sparse`, or the program that runs the source.
        rows: The rows of a batch.
        threads: The threads that a run may use.
        runs: How many runs were timed.
        p50: The median of the seconds of a run.
        p90: Nine of ten runs took at most this.
        p99: Ninety-nine of a hundred did; of fewer than a hundred runs, this is close to the slowest one.
        rows_per_second: Rows of a batch by the median, as the speedup: a few slow runs change neither.
        speedup: The source's median by this one; None without a source.
    """

    contender: str
    rows: int
    threads: int
    runs: int
    p50: float
    p90: float
    p99: float
    rows_per_second: float
    speedup: float | None = None


def lines_of(rows: int, threads: int, seconds: Mapping[str, Sequence[float]]) -> list[Line]:
    """A line for each contender, of the seconds of its runs. The first one is compared with the second."""
    made = []
    for name, took in seconds.items():
        p50, p90, p99 = (float(value) for value in np.percentile(took, _PERCENTILES))
        made.append(Line(name, rows, threads, len(took), p50, p90, p99, rows / p50))
    if len(made) > 1:
        model, source = made
        made[0] = replace(model, speedup=source.p50 / model.p50)
    return made
