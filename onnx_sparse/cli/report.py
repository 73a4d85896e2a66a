"""Write a report about a model: one self-contained HTML page that makes no requests.

It shows the graph as a picture that zooms and folds, inputs, features and tables, problems of the
model and the tools that take it, and the times of a run by operator. With --source it also shows
the graph of the source, compares the answers of both, and times both. `convert --report` also
shows the rules that were applied, and why others were not.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_inputs, add_source
from onnx_sparse.cli.watch import watched
from onnx_sparse.commands import Progress
from onnx_sparse.errors import CommandError, printable

if TYPE_CHECKING:
    pass

NAME = "report"
SUMMARY = "write a page about a model: its graph, verification and times"
EXAMPLES = """
onnx-sparse report model.onnx -o report.html
onnx-sparse report model.onnx -o report.html --source saved_model/
onnx-sparse convert saved_model/ -o model.onnx --verify --report report.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    add_source(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.html", help="the page to write")
    add_inputs(parser, "-i", "--input", help="rows to time, in the forms that `run` takes (default: drawn)")
    parser.add_argument("--no-times", dest="times", action="store_false", help="do not run the model")


def run(arguments: argparse.Namespace) -> int:
    """Write the report."""
    from onnx_sparse.commands.feeds import read_files
    from onnx_sparse.files.new_file import check_writable

    source: Path | None = arguments.source
    keep = [arguments.model, *read_files(arguments.input), *([] if source is None else [source])]
    check_writable(arguments.output, keep=keep)
    if source is not None and not source.exists():
        raise CommandError(f"{source}: no such file or directory")
    return watched(lambda tell: _report(arguments, tell))


def _report(arguments: argparse.Namespace, tell: Progress) -> int:
    from onnx_sparse.commands.feeds import read_feeds
    from onnx_sparse.commands.model_report import gather, write
    from onnx_sparse.commands.origin import with_source
    from onnx_sparse.models.load_and_save import load_model, size_text

    model = load_model(arguments.model)
    rows = read_feeds(model, arguments.input) if arguments.input else None
    with output.progress(f"reading {arguments.model}", quiet=arguments.json) as show:

        def progress(stage: str) -> None:
            tell(stage)
            show(stage)

        options = {name: getattr(arguments, name) for name in ("signature", "tag") if getattr(arguments, name)}
        made = None if arguments.source is None else with_source(arguments.model, arguments.source, options, progress)
        report = gather(arguments.model, made, rows=rows, times=arguments.times, progress=progress)
        size = write(report, arguments.output)
    document = {
        "model": str(arguments.model),
        "output": str(arguments.output),
        "size": size,
        "figures": dict(report.contents.tiles),
        "notes": list(report.contents.notes),
    }
    if arguments.json:
        output.write_json(document)
        return output.DONE
    output.write_line(f"{printable(arguments.output)}: {size_text(size)}, open it in a browser")
    for note in report.contents.notes:
        output.paragraph(f"note: {note}")
    return output.DONE
