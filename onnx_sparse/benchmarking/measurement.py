"""One part of a benchmark: all batches with one number of threads, in this process or in one of its own.

TensorFlow takes its number of threads once in a process, so that a benchmark with a source has a process for each
number: `python -m onnx_sparse.benchmarking.measurement` reads a `Task` from a file and writes the seconds of the runs.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from onnx_sparse.benchmarking.timing import take_turns
from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.roads.table import road_named
from onnx_sparse.converters.verification.ragged_inputs import RaggedInputs
from onnx_sparse.models.files.model_files import read_light_model
from onnx_sparse.rows.columns import Array
from onnx_sparse.schemas.states import states_of
from onnx_sparse.settings import Backend

#: What the model is called in results.
MODEL = "onnx_sparse"

#: By rows of a batch and name of a contender: the seconds of each run.
Seconds = dict[int, dict[str, list[float]]]

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """What is measured with one number of threads.

    Attributes:
        model: The model's file.
        backend: The kernels.
        source: The file or folder of its source; None to run the model alone.
        road: The name of its road.
        threads: How many threads each may use.
        seconds: How long each runs on each batch.
        batches: The inputs, by number of rows.
        options: The options of the source.
    """

    model: str
    backend: Backend
    source: str | None
    road: str
    threads: int
    seconds: float
    batches: dict[int, dict[str, Array]]
    options: Mapping[str, Any] = field(default_factory=dict)


def measure(task: Task, progress: Progress = lambda stage: None) -> Seconds:
    """Run a task in this process.

    Raises:
        ConversionError: The model or its source does not load, or refuses a batch.
    """
    from onnx_sparse.sessions.quiet import quiet_session

    session = _attempt(f"{task.model} does not load", lambda: quiet_session(task.model, task.threads, task.backend))
    names = [value.name for value in session.get_inputs()]
    runs: dict[str, Callable[[dict[str, Array]], object]] = {MODEL: lambda feeds: session.run(None, feeds)}
    inputs: dict[str, Callable[[Mapping[str, Array]], dict[str, Array]]] = {MODEL: lambda feeds: _chosen(feeds, names)}
    if task.source is not None:
        proto = read_light_model(task.model)
        pasts = {state.past for state in states_of(proto)}
        stateless = [name for name in names if name not in pasts]
        road = road_named(task.road)
        program = road.program or road.title
        own, run = _attempt(
            f"{task.source} does not load in {program}",
            lambda: road.timed(task.source or "", road.choose(task.options), task.threads, stateless),
        )
        ragged = RaggedInputs(proto, own)  # features that are sparse in the source
        runs[program], inputs[program] = run, lambda feeds: _chosen(ragged.of_source(feeds), own)
    found: Seconds = {}
    for rows, feeds in task.batches.items():
        progress(f"running {rows:,} row{'s' * (rows != 1)} with {_threads(task.threads)}")
        contenders = {
            name: partial(run, _attempt(f"{name} has other inputs", partial(inputs[name], feeds)))
            for name, run in runs.items()
        }
        for name, contender in contenders.items():
            _attempt(f"{name} refuses a batch of {rows:,} rows", contender)
        found[rows] = take_turns(contenders, task.seconds)
    return found


def _chosen(feeds: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    if missing := [name for name in names if name not in feeds]:
        raise ValueError(f"the model has no input {missing[0]!r}")
    return {name: feeds[name] for name in names}


def _attempt(what: str, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except Exception as error:  # the libraries' exceptions have no common base class
        raise ConversionError(f"{what}: {first_line(error)}") from error


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"


def measure_apart(task: Task, progress: Progress = lambda stage: None) -> Seconds:
    """Run a task in a process of its own.

    Raises:
        ConversionError: As `measure`; or the process ended.
    """
    progress(f"loading {task.source} with {_threads(task.threads)}")
    with tempfile.TemporaryDirectory(prefix="onnx-sparse-benchmark-") as folder:
        asked, answered = Path(folder) / "task", Path(folder) / "answer"
        asked.write_bytes(pickle.dumps(task))
        command, said = [sys.executable, "-m", __name__, str(asked), str(answered)], Path(folder) / "stderr"
        with (
            said.open("wb") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            try:
                for line in process.stdout or ():
                    progress(line.strip())
            except BaseException:
                process.kill()
                raise
        if not answered.exists():
            last = (said.read_text("utf-8", "replace").strip().splitlines() or ["it wrote nothing"])[-1]
            raise ConversionError(f"the process that ran {task.source} ended with status {process.returncode}: {last}")
        found: Seconds | str = pickle.loads(answered.read_bytes())
    if isinstance(found, str):
        raise ConversionError(found)
    return found


def _main(asked: str, answered: str) -> None:
    task: Task = pickle.loads(Path(asked).read_bytes())

    def tell(stage: str) -> None:
        sys.stdout.write(f"{stage}\n")
        sys.stdout.flush()

    found: Seconds | str
    try:
        found = measure(task, tell)
    except ConversionError as error:
        found = str(error)
    Path(answered).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    # Pickles name classes by their module, which is not __main__.
    from onnx_sparse.benchmarking import measurement

    measurement._main(*sys.argv[1:])
