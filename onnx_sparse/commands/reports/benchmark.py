"""`benchmark`: how long runs of a model take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_sparse.commands.errors import raised
from onnx_sparse.commands.inputs.model_settings import ComparedSettings
from onnx_sparse.settings import Backend, FilePath, function_of, numbers, option, seed

if TYPE_CHECKING:
    from onnx_sparse.benchmarking.benchmark import Benchmark


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r} is not a positive number of seconds")
    return seconds


@dataclass(frozen=True)
class BenchmarkSettings(ComparedSettings):
    """What `benchmark` is asked for: the arguments of `onnx_sparse.benchmark`, and the options of the command."""

    _: KW_ONLY
    batch_sizes: Sequence[int] | None = field(
        default=None,
        metadata=option(
            "rows of a batch (default: 1,32,256; with --input: all its rows)", "N,N", listed=True, parse=numbers
        ),
    )
    threads: Sequence[int] | None = field(
        default=None,
        metadata=option("threads of a run (default: 1, and all processors)", "N,N", listed=True, parse=numbers),
    )
    seconds: float = field(
        default=0.5,
        metadata=option(
            "how long each runs for each batch size and number of threads (default: 0.5)", "S", parse=_seconds
        ),
    )
    svg: FilePath | None = field(default=None, metadata=option("write a plot", "FILE.svg"))
    backend: Backend = field(default="auto", metadata=option("the kernels (default: auto)"))
    seed: int = field(default=0, metadata=option("the same seed draws the same rows (default: 0)", "N", parse=seed))

    def check(self) -> None:
        """Refuse what can be refused before anything runs.

        Raises:
            CommandError: A file cannot be written, or is not there.
            UsageError: The source has no such options.
        """
        from onnx_sparse.files.new_file import check_writable

        if self.svg is not None:
            check_writable(Path(self.svg), ".svg", keep=self.files())
        self.check_source()


def measured(settings: BenchmarkSettings) -> Benchmark:
    """Time a model as settings ask for.

    Raises:
        CommandError: A file cannot be read or written, or the model is none of this version.
        ConversionError: The model or its source does not load, or refuses the rows.
        ValueError: A number is not positive, or the rows are none of the model.
    """
    from onnx_sparse.benchmarking import benchmark as benchmarking
    from onnx_sparse.commands.description.findings import refuse_domain_errors
    from onnx_sparse.files.new_file import new_file
    from onnx_sparse.models.files.load_and_save import load_model
    from onnx_sparse.models.files.model_files import file_of

    with file_of(settings.model) as path:
        settings.tell(f"reading {settings.name}")
        model = load_model(path)
        refuse_domain_errors(model, Path(settings.name))
        result = benchmarking.benchmark(
            settings.model,
            settings.source,
            source_options=settings.load_options(),
            rows=settings.feeds(model),
            batch_sizes=settings.batch_sizes,
            threads=settings.threads,
            seconds=settings.seconds,
            backend=settings.backend,
            seed=settings.seed,
            progress=settings.tell,
        )
    if settings.svg is not None:
        with new_file(Path(settings.svg)) as file:
            file.write(result.to_svg().encode())
    return result


@function_of(BenchmarkSettings)
def benchmark(settings: BenchmarkSettings) -> Benchmark:
    """Time a model in ONNX Runtime, by batch size and number of threads.

        print(onnx_sparse.benchmark("model.onnx", seconds=0.1))

    With a source, both run on the same inputs and take turns, in a process of their own for each number of threads.
    Both get numpy arrays and return them. The rows are repeated as needed; generated ones have ids in range, and one to
    three values in each row of a sparse or ragged feature.

    Raises:
        ValueError: A number is not positive, or the model does not take `rows`.
        ConversionError: The model or its source does not load, or refuses the rows.
    """
    with raised(BenchmarkSettings):
        settings.check()
        return measured(settings)
