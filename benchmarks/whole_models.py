"""Whole recommenders and graph networks: converted, in the framework they come from, and in plain ONNX Runtime.

    python benchmarks/whole_models.py [--from tensorflow|torch] [--rows 1 512] [--threads 1 2] [--only WORD]
        [--profile] [--json FILE] [--save]

Each line is a model and a number of rows (of nodes, for a graph): the median time of a run of the converted model, and
that time divided by the framework's and by that of the same model in standard ONNX operators (`onnx_sparse.lower`) in
plain ONNX Runtime; below 1 is faster. The answers are compared before anything is timed.
`--profile` prints which operators the converted model's time goes to, by ONNX Runtime's profile of a run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from contest import take_turns
from machine import this_machine
from records import Line
from runner import finish, is_apart, measured_apart, parse, parser
from sessions import Array, BoundRun, Subject, session_options


def subjects(framework: str, threads: int, rows: list[int], only: str) -> Iterator[Subject]:
    """The models of a framework, with batches of so many rows."""
    if framework == "torch":
        import torch_recommenders

        return torch_recommenders.subjects(threads, rows, only)
    import tensorflow_recommenders

    return tensorflow_recommenders.subjects(threads, rows, only)


def measure(framework: str, threads: int, arguments: argparse.Namespace) -> list[Line]:
    """The lines of a framework for one number of threads."""
    import onnx_sparse

    lines = []
    for subject in subjects(framework, threads, arguments.rows, arguments.only):
        converted = bound(onnx_sparse.InferenceSession, subject.model, subject.feeds, threads)
        plain = bound(plain_session, onnx_sparse.lower(subject.model), subject.feeds, threads)
        expected = np.asarray(subject.run())
        np.testing.assert_allclose(converted.outputs()[0], expected, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(plain.outputs()[0], expected, rtol=1e-3, atol=1e-4)
        runs = {"converted": converted, framework: subject.run, "plain": plain}
        lines.append(Line(subject.name, threads, take_turns(runs, 9, 2.0)))
        print(_line(lines[-1]), flush=True)
        if arguments.profile:
            print(profiled(subject.model, subject.feeds, threads), flush=True)
    return lines


def plain_session(model: Any, options: Any) -> Any:
    """A session of ONNX Runtime without kernels of the domain."""
    import onnxruntime as ort

    return ort.InferenceSession(model.SerializeToString(), options)


def bound(session_of: Callable[[Any, Any], Any], model: Any, feeds: Mapping[str, Array], threads: int) -> BoundRun:
    """A run of a model on bound inputs."""
    return BoundRun(session_of(model, _options(threads)), feeds)


def _options(threads: int) -> Any:
    options = session_options(threads)
    options.log_severity_level = 3
    return options


def profiled(model: Any, feeds: Mapping[str, Array], threads: int, runs: int = 20, shown: int = 8) -> str:
    """How the time of a run is spread over operators, largest first: microseconds, share, and how many nodes."""
    import onnx_sparse

    with tempfile.TemporaryDirectory() as folder:
        options = _options(threads)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder, "profile"))
        session = onnx_sparse.InferenceSession(model, options)
        for _ in range(runs):
            session.run(None, dict(feeds))
        events = json.loads(Path(session.end_profiling()).read_text())
    times: Counter[str] = Counter()
    nodes: dict[str, set[str]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            kind = event["args"]["op_name"]
            times[kind] += event["dur"]
            nodes.setdefault(kind, set()).add(event["name"])
    total = sum(times.values())
    parts = [
        f"    {kind:32} {time / runs:9.1f} us {time / total:6.1%}  {len(nodes[kind])} nodes"
        for kind, time in times.most_common(shown)
    ]
    return "\n".join([*parts, f"    {'all nodes':32} {total / runs:9.1f} us"])


def _line(line: Line) -> str:
    framework = line.names[1]
    ratios = f"{line.ratio(framework):8.2f} {line.ratio('plain'):8.2f}"
    return f"{line.case:44} {line.threads:2} {1e3 * line.seconds('converted'):10.3f} ms {ratios}"


def main() -> None:
    """Measure and print."""
    made = parser(__doc__)
    made.add_argument("--from", dest="framework", choices=("tensorflow", "torch"), default="tensorflow")
    made.add_argument("--rows", type=int, nargs="+", default=[1, 512])
    made.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    made.add_argument("--only", default="", help="only the models whose name contains this word")
    made.add_argument("--profile", action="store_true", help="also print the time of each operator")
    arguments = parse(made)
    here = this_machine()
    if not is_apart():
        print(f"{here}\n{'model, rows':44} th     converted   / source  / plain", flush=True)
    lines = measured_apart(arguments.threads, lambda threads: measure(arguments.framework, threads, arguments))
    finish(f"whole_models_{arguments.framework}", here, lines, arguments)


if __name__ == "__main__":
    main()
