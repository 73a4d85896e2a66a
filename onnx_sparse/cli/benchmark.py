"""Time a model in ONNX Runtime with our kernels: latency and rows per second, by batch size and number of threads.

Rows are drawn for the model's features, with ids in range and one to three values in each row of a
sparse or ragged feature. --input passes rows of your own, which are repeated to fill a batch.

With --source, the source of the model runs on the same inputs in TensorFlow, torch, OpenVINO or
ONNX Runtime. Both take turns, so that other load on the machine affects both alike. The p99 of
fewer than 100 runs is close to the slowest run; --seconds makes more runs.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_inputs, add_source
from onnx_sparse.cli.watch import watched
from onnx_sparse.commands import Progress
from onnx_sparse.errors import CommandError, printable

NAME = "benchmark"
SUMMARY = "time a model: latency and rows per second"
EXAMPLES = """
onnx-sparse benchmark model.onnx
onnx-sparse benchmark model.onnx --source saved_model/ --svg benchmark.svg
onnx-sparse benchmark model.onnx --batch-sizes 1,64,1024 --threads 1,4 --seconds 2
onnx-sparse benchmark model.onnx --input items='[[5, 7], [], [3]]' --batch-sizes 1,100
onnx-sparse benchmark model.onnx --json | jq '.lines[] | [.rows, .threads, .p99]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    add_source(parser)
    add_inputs(parser, "-i", "--input", help="rows to run on, in the forms that `run` takes (default: drawn)")
    parser.add_argument(
        "--batch-sizes",
        type=_numbers,
        metavar="N,N",
        help="rows of a batch (default: 1,32,256; with --input: all its rows)",
    )
    parser.add_argument(
        "--threads", type=_numbers, metavar="N,N", help="threads of a run (default: 1, and all processors)"
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=0.5,
        metavar="S",
        help="how long each runs for each batch size and number of threads (default: %(default)s)",
    )
    parser.add_argument("--svg", type=Path, metavar="FILE.svg", help="write a plot")
    parser.add_argument(
        "--backend", choices=("auto", "native", "python"), default="auto", help="the kernels (default: %(default)s)"
    )


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a comma-separated list of positive numbers")
    return numbers


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    """Time the model."""
    from onnx_sparse.commands.feeds import read_files
    from onnx_sparse.files.new_file import check_writable

    if arguments.svg is not None:
        check_writable(arguments.svg, keep=[arguments.model, *read_files(arguments.input)])
    if arguments.source is not None and not arguments.source.exists():
        raise CommandError(f"{arguments.source}: no such file or directory")
    return watched(lambda tell: _benchmark(arguments, tell))


def _benchmark(arguments: argparse.Namespace, tell: Progress) -> int:
    from onnx_sparse.benchmarking.benchmark import benchmark
    from onnx_sparse.commands.feeds import read_feeds
    from onnx_sparse.commands.findings import refuse_domain_errors
    from onnx_sparse.converters.errors import ConversionError
    from onnx_sparse.files.new_file import new_file
    from onnx_sparse.models.load_and_save import load_model

    model = load_model(arguments.model)
    refuse_domain_errors(model, arguments.model)
    rows = read_feeds(model, arguments.input) if arguments.input else None
    with output.progress(f"reading {arguments.model}", quiet=arguments.json) as show:

        def progress(stage: str) -> None:
            tell(stage)
            show(stage)

        try:
            result = benchmark(
                arguments.model,
                arguments.source,
                source_options={name: value for name in ("signature", "tag") if (value := getattr(arguments, name))},
                rows=rows,
                batch_sizes=arguments.batch_sizes,
                threads=arguments.threads,
                seconds=arguments.seconds,
                backend=arguments.backend,
                progress=progress,
            )
        except (ConversionError, ValueError, FileNotFoundError) as error:
            raise CommandError(error) from error
    if arguments.svg is not None:
        with new_file(arguments.svg) as file:
            file.write(result.to_svg().encode())
    if arguments.json:
        output.write_json(result.to_json())
        return output.DONE
    show_result(result)
    if arguments.svg is not None:
        output.write_line()
        output.write_line(f"plot: {printable(arguments.svg)}")
    return output.DONE


def show_result(result: Any) -> None:
    """Print a benchmark."""
    columns, rows = result.cells()
    output.heading(f"{result.model} on {result.machine}")
    output.paragraph(f"{result.machine.software}; {result.backend} kernels, {result.rows} rows")
    output.write_line()
    output.table([columns[0], *(f">{column}" for column in columns[1:])], rows)
