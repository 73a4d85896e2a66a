"""`benchmark`: how long runs of a model take, and how many rows per second that is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from onnx_sparse.benchmarking.figures import Line, lines_of
from onnx_sparse.benchmarking.machine import Machine, this_machine, usable_cores
from onnx_sparse.benchmarking.measurement import Task, measure, measure_apart
from onnx_sparse.benchmarking.plot import plot
from onnx_sparse.benchmarking.rows import batches_of
from onnx_sparse.converters.roads.table import road_of
from onnx_sparse.models.files.model_files import file_of
from onnx_sparse.rows.columns import Array
from onnx_sparse.settings import Backend
from onnx_sparse.shown import Shown, Table

if TYPE_CHECKING:
    from onnx_sparse.models.files.model_files import ModelSource

#: The numbers of rows of batches when none are asked for: one request, some joined, and scoring.
BATCH_SIZES = (1, 32, 256)


@dataclass(frozen=True, repr=False)
class Benchmark(Shown):
    """The result of `benchmark`: print it, or let a notebook show it.

        timed: onnx_sparse.Benchmark = onnx_sparse.benchmark("model.onnx", seconds=0.1)
        print([(line.rows, line.p50) for line in timed.lines])

    Attributes:
        model: The model's file, or a name for it.
        source: Its source's file or folder; None when it ran alone.
        backend: The kernels that ran.
        rows: What the rows were: `drawn` or `given`.
        machine: The machine.
        lines: The figures, by number of threads and batch size.
    """

    model: str
    source: str | None
    backend: str
    rows: str
    machine: Machine
    lines: tuple[Line, ...]

    def _repr_html_(self) -> str:
        return super()._repr_html_() + self.to_svg()

    def _tables(self) -> list[Table]:
        columns, rows = self.cells()
        return [([columns[0], *(f">{column}" for column in columns[1:])], rows)]

    @property
    def _title(self) -> str:
        return f"{self.model} on {self.machine}"

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The figures as text: the columns' names, and the rows. Latencies are in milliseconds."""
        columns = ["", "rows", "threads", "p50 ms", "p90 ms", "p99 ms", "rows/s", "runs"]
        rows = [
            [
                line.contender,
                f"{line.rows:,}",
                str(line.threads),
                *(f"{1e3 * seconds:.3g}" for seconds in (line.p50, line.p90, line.p99)),
                f"{line.rows_per_second:,.0f}",
                f"{line.runs:,}",
            ]
            for line in self.lines
        ]
        if self.source is not None:
            columns.append("speedup")
            for row, line in zip(rows, self.lines, strict=True):
                row.append("" if line.speedup is None else f"{line.speedup:.3g}x")
        return columns, rows

    def to_json(self) -> dict[str, Any]:
        """The attributes, as JSON has them. Latencies are in seconds."""
        return asdict(self) | {"lines": [asdict(line) for line in self.lines]}

    def to_svg(self) -> str:
        """A plot: rows per second against the rows of a batch."""
        return plot(self._title, self.lines)


def benchmark(
    model: ModelSource,
    source: str | os.PathLike[str] | None = None,
    *,
    source_options: Mapping[str, Any] | None = None,
    rows: Mapping[str, Array] | None = None,
    batch_sizes: Sequence[int] | None = None,
    threads: Sequence[int] | None = None,
    seconds: float = 0.5,
    backend: Backend = "auto",
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Benchmark:
    """Time a model in ONNX Runtime, by batch size and number of threads.

    With a source, both run on the same inputs and take turns, in a process of their own for each number of threads.
    Both get numpy arrays and return them.

    Args:
        model: A path, ModelProto, bytes or onnx_ir.Model.
        source: The file or folder that the model was converted from, which needs the package that runs it.
        source_options: What chooses a graph of a source of TensorFlow, as for `convert`: `signature`, `tag`, `inputs`,
            `outputs`.
        rows: The inputs of a run, whose rows are repeated as needed. Drawn when omitted, with ids in range and one to
            three values in each row of a sparse or ragged feature.
        batch_sizes: The rows of a batch; by default 1, 32 and 256, or all of `rows`.
        threads: The threads that a run may use; 1 and all processors when omitted.
        seconds: How long each runs for each batch size and number of threads.
        backend: "auto", "native" or "python".
        seed: The same seed draws the same rows.
        progress: Called with what is being done.

    Raises:
        ValueError: A number is not positive, or the model does not take `rows`.
        ConversionError: The model or its source does not load, or refuses the rows.
    """
    from onnx_sparse.sessions.runtime import available_backends

    tell = progress or (lambda stage: None)
    counts = _checked(threads, "threads") or sorted({1, usable_cores()})
    sizes = _checked(batch_sizes, "batch size")
    road = None if source is None else road_of(source)
    if source_options and road is None:
        raise ValueError(f"source_options are for a source: {', '.join(source_options)}")
    if source_options and road is not None:
        try:
            road.choose(source_options)
        except TypeError as error:
            raise ValueError(f"source_options: {error}") from error
    if not seconds > 0:
        raise ValueError(f"seconds = {seconds} is not positive")
    machine = this_machine()  # before its load is our own
    with file_of(model) as path:
        tell("drawing rows" if rows is None else "making batches")
        batches = batches_of(path, rows, sizes or BATCH_SIZES if rows is None else sizes, seed)
        found: list[Line] = []
        for count in counts:
            given = None if source is None else os.fspath(source)
            task = Task(
                str(path),
                backend,
                given,
                road.name if road else "",
                count,
                seconds,
                batches,
                dict(source_options or {}),
            )
            measured = (measure if source is None else measure_apart)(task, tell)
            found += [line for size, runs in measured.items() for line in lines_of(size, count, runs)]
    return Benchmark(
        os.fspath(model) if isinstance(model, (str, os.PathLike)) else "the model",
        None if source is None else str(source),
        available_backends()[0] if backend == "auto" else backend,
        "drawn" if rows is None else "given",
        machine,
        tuple(found),
    )


def _checked(numbers: Sequence[int] | None, what: str) -> list[int]:
    found = list(dict.fromkeys(numbers or ()))
    for number in found:
        if number < 1:
            raise ValueError(f"{what} {number} is not positive")
    return found
