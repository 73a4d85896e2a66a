"""Write a report about a model: one self-contained HTML page that makes no requests.

It shows the graph as a picture that zooms and folds, inputs, features and tables, problems of the
model and the tools that take it, and the times of a run by operator. With --source it also shows
the graph of the source, compares the answers of both, and times both. `convert --report` also
shows the rules that were applied, and why others were not.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_inputs, add_source
from onnx_sparse.cli.watch import watched

if TYPE_CHECKING:
    from onnx_sparse.cli.model_report import Origin

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
    from onnx_sparse.cli.feeds import read_files
    from onnx_sparse.cli.files.new_file import check_writable

    source: Path | None = arguments.source
    keep = [arguments.model, *read_files(arguments.input), *([] if source is None else [source])]
    check_writable(arguments.output, keep=keep)
    if source is not None and not source.exists():
        raise output.CommandError(f"{source}: no such file or directory")
    return watched(lambda tell: _report(arguments, tell))


def _report(arguments: argparse.Namespace, tell: output.Progress) -> int:
    from onnx_sparse.cli.feeds import read_feeds
    from onnx_sparse.cli.files.model_file import load_model, size_text
    from onnx_sparse.cli.model_report import gather, write

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
    output.write_line(f"{output.printable(arguments.output)}: {size_text(size)}, open it in a browser")
    for note in report.contents.notes:
        output.paragraph(f"note: {note}")
    return output.DONE


def with_source(model: Path, source: Path, options: Mapping[str, Any], progress: output.Progress) -> Origin:
    """What is known of a source without another conversion: its picture, and a verification.

    Raises:
        CommandError: It cannot be read.
    """
    from onnx_sparse.cli.convert import verification
    from onnx_sparse.cli.convert.conversion import loaded_source, verified
    from onnx_sparse.cli.files.model_file import load_model
    from onnx_sparse.cli.model_report import PACKAGES, Origin, is_there, picture_of_source
    from onnx_sparse.converters.errors import ConversionError
    from onnx_sparse.converters.sources import source_of

    try:
        made = Origin(source, source_of(source), options=options)
    except ConversionError as error:
        raise output.CommandError(error) from error
    if options and made.origin != "tensorflow":
        raise output.UsageError(f"{', '.join(options)}: only a SavedModel has that")
    progress(f"reading {source}")
    loaded = loaded_source(made.origin, source, options)
    made.picture = picture_of_source(made, loaded)
    if not is_there(made.origin):
        package = PACKAGES.get(made.origin)
        why = f"{package} is not installed" if package else f"no program here runs models of the source {made.origin}"
        made.notes.append(f"not verified: {why}")
        return made
    progress("verifying")
    lines: dict[str, str] = {}
    try:
        records = verified(made.origin, loaded, load_model(model, external_data=True), progress, lines)
    except output.CommandError as error:
        made.notes.append(f"not verified: {error}")
        return made
    made.verification, made.verified_inputs = [verification.document(record) for record in records], lines
    made.notes.append("`onnx-sparse convert --report` also shows the rules that were applied")
    return made
