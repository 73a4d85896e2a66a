"""Write a report about a model: one self-contained HTML page that makes no requests.

It shows the graph as a picture that zooms and folds, inputs, features and tables, problems of the
model and the tools that take it, and the times of a run by operator. With --source it also shows
the graph of the source, compares the answers of both, and times both. `convert --report` also
shows the rules that were applied, and why others were not.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_options, given
from onnx_sparse.cli.watch import watched
from onnx_sparse.commands import Progress
from onnx_sparse.commands.reports.report import ReportSettings, reported
from onnx_sparse.errors import printable
from onnx_sparse.models.files.load_and_save import size_text

NAME = "report"
SUMMARY = "write a page about a model: its graph, verification and times"
EXAMPLES = """
onnx-sparse report model.onnx -o report.html
onnx-sparse report model.onnx -o report.html --source saved_model/
onnx-sparse convert saved_model/ -o model.onnx --verify --report report.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser, ReportSettings)


def run(arguments: argparse.Namespace) -> int:
    """Write the report."""
    settings = given(ReportSettings, arguments)
    settings.check()
    return watched(lambda tell: _report(settings, tell, json=arguments.json))


def _report(settings: ReportSettings, tell: Progress, *, json: bool) -> int:
    path = Path(str(settings.output))
    with output.progress(f"reading {settings.name}", tell, quiet=json) as progress:
        contents = reported(replace(settings, progress=progress)).contents
    size = path.stat().st_size
    if json:
        document = {"model": settings.name, "output": str(path), "size": size}
        output.write_json(document | {"figures": dict(contents.tiles), "notes": list(contents.notes)})
        return output.DONE
    output.write_line(f"{printable(path)}: {size_text(size)}, open it in a browser")
    for note in contents.notes:
        output.paragraph(f"note: {note}")
    return output.DONE
