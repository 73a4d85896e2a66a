"""Time a model in ONNX Runtime with our kernels: latency and rows per second, by batch size and number of threads.

Rows are generated for the model's features, with ids in range and one to three values in each row of a
sparse or ragged feature. --input passes rows of your own, which are repeated to fill a batch.

With --source, the source of the model runs on the same inputs in TensorFlow, torch, OpenVINO or
ONNX Runtime. Both take turns, so that other load on the machine affects both alike. The p99 of
fewer than 100 runs is close to the slowest run; --seconds makes more runs.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_options, given
from onnx_sparse.cli.watch import watched
from onnx_sparse.commands import Progress
from onnx_sparse.commands.reports.benchmark import BenchmarkSettings, measured
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.errors import CommandError, printable

NAME = "benchmark"
SUMMARY = "time a model: latency and rows per second"
EXAMPLES = """
onnx-sparse benchmark model.onnx
onnx-sparse benchmark model.onnx --source saved_model/ --svg benchmark.svg
onnx-sparse benchmark model.onnx --batch-sizes 1,64,1024 --threads 1,4
onnx-sparse benchmark m.onnx --input items='[[5, 7], []]' --batch-sizes 1,100
onnx-sparse benchmark m.onnx --json | jq '.lines[] | [.rows, .threads, .p99]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser, BenchmarkSettings)


def run(arguments: argparse.Namespace) -> int:
    """Time the model."""
    settings = given(BenchmarkSettings, arguments)
    settings.check()
    return watched(lambda tell: _benchmark(settings, tell, json=arguments.json))


def _benchmark(settings: BenchmarkSettings, tell: Progress, *, json: bool) -> int:
    with output.progress(f"reading {settings.name}", tell, quiet=json) as progress:
        try:
            result = measured(replace(settings, progress=progress))
        except (ConversionError, ValueError, FileNotFoundError) as error:
            raise CommandError(error) from error
    if json:
        output.write_json(result.to_json())
        return output.DONE
    show_result(result)
    if settings.svg is not None:
        output.write_line()
        output.write_line(f"plot: {printable(settings.svg)}")
    return output.DONE


def show_result(result: Any) -> None:
    """Print a benchmark."""
    columns, rows = result.cells()
    output.heading(f"{result.model} on {result.machine}")
    output.paragraph(f"{result.machine.software}; {result.backend} kernels, {result.rows} rows")
    output.write_line()
    output.table([columns[0], *(f">{column}" for column in columns[1:])], rows)
