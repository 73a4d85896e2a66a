"""The time of a model by operator and by node, from ONNX Runtime's profile."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from onnx_sparse.rows.columns import Array
from onnx_sparse.settings import Backend

#: What ONNX Runtime appends to the name of a node.
_SUFFIX = "_kernel_time"


@dataclass(frozen=True)
class OperatorTime:
    """The time of all nodes of one operator.

    Attributes:
        operator: The operator, after ONNX Runtime's optimizations.
        count: Its nodes.
        seconds: Their time in one run, the median.
        share: That, as a part of the time of all nodes.
    """

    operator: str
    count: int
    seconds: float
    share: float


def profile(
    model: str, feeds: Mapping[str, Array], *, backend: Backend = "auto", threads: int = 0, runs: int = 50
) -> tuple[list[OperatorTime], dict[str, float]]:
    """Run a model with ONNX Runtime's profile, whose clock counts microseconds: many runs are needed.

    Args:
        model: Its file.
        feeds: The inputs of a run.
        backend: The kernels.
        threads: The threads that a run may use; ONNX Runtime's choice when 0.
        runs: How many runs are profiled, after two that are not counted.

    Returns:
        The times by operator, the longest first, and the seconds of each node in a run by its name.
    """
    from onnx_sparse.sessions.quiet import quiet_options
    from onnx_sparse.sessions.runtime import InferenceSession

    options = quiet_options(threads)
    options.enable_profiling = True
    with tempfile.TemporaryDirectory(prefix="onnx-sparse-profile-") as folder:
        options.profile_file_prefix = os.path.join(folder, "profile")
        session = InferenceSession(model, options, backend=backend)
        for _ in range(runs + 2):
            session.run(None, dict(feeds))
        with open(session.end_profiling(), encoding="utf-8", errors="replace") as file:
            events = json.load(file)
    return _summary(events, runs)


def _summary(events: list[dict[str, object]], runs: int) -> tuple[list[OperatorTime], dict[str, float]]:
    took: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        name, arguments = str(event.get("name", "")), event.get("args")
        if event.get("cat") == "Node" and name.endswith(_SUFFIX) and isinstance(arguments, dict):
            took[str(arguments.get("op_name")), name.removesuffix(_SUFFIX)].append(float(str(event["dur"])) / 1e6)
    seconds: dict[tuple[str, str], float] = {}
    for key, found in took.items():
        each = max(len(found) // (runs + 2), 1)  # a node in a loop runs several times in a run
        by_run = [sum(found[begin : begin + each]) for begin in range(2 * each, len(found), each)]
        seconds[key] = statistics.median(by_run or found)
    total = sum(seconds.values()) or 1.0
    operators: dict[str, list[float]] = defaultdict(list)
    for (operator, _), time in seconds.items():
        operators[operator].append(time)
    times = [OperatorTime(name, len(own), sum(own), sum(own) / total) for name, own in operators.items()]
    return sorted(times, key=lambda time: -time.seconds), {name: time for (_, name), time in seconds.items()}
