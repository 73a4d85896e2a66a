"""Convert a model into an ONNX file with our operators, in canonical form: it runs on every backend.

The source is a TensorFlow SavedModel, GraphDef, checkpoint or Keras model, a program saved by
torch.export, an Ascend ATB or GE graph, an OpenVINO IR (the .xml next to its .bin), or an ONNX
file, which is brought to canonical form.

The output file is written only if everything succeeds, including verification. Otherwise nothing
is written, and an existing file is not changed. If verification fails, --report still writes its
page.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_options, given
from onnx_sparse.cli.help_topics import Topic
from onnx_sparse.cli.watch import watched
from onnx_sparse.commands import Progress
from onnx_sparse.commands.conversion.settings import VERIFICATION, WRITTEN, ConvertSettings, extended
from onnx_sparse.converters.roads.road import AnyRoad
from onnx_sparse.converters.roads.table import roads
from onnx_sparse.errors import CommandError

if TYPE_CHECKING:
    from onnx_sparse.commands.conversion.source import ConvertDocument

NAME = "convert"
SUMMARY = "convert a TensorFlow, torch, Ascend, OpenVINO or ONNX model"
USAGE = "%(prog)s SRC -o OUT.onnx [OPTION ...]"
EXAMPLES = """
onnx-sparse convert saved_model/ -o model.onnx --verify --report report.html
onnx-sparse convert saved_model/ -o models/ --portable --explain
onnx-sparse convert model.onnx -o standard.onnx --lower --verify
"""
_TOPICS = {
    "verification": Topic(
        VERIFICATION,
        """
onnx-sparse convert saved_model/ -o model.onnx --write-inputs inputs.json
onnx-sparse convert saved_model/ -o model.onnx --verify-with inputs.json
onnx-sparse convert saved_model/ -o m.onnx --verify --atol 1e-5 --rtol 1e-4
""",
    ),
    "model": Topic(
        WRITTEN,
        """
onnx-sparse convert saved_model/ -o model.onnx --features ragged --verify
onnx-sparse convert model.onnx -o standard.onnx --lower --opset 21
""",
    ),
}


def topics() -> Mapping[str, Topic]:
    """What the common help leaves out: the options of each source first."""
    of_roads = {
        road.name: Topic(title, getattr(road.options, "EXAMPLES", ""))
        for road in roads().values()
        if (title := getattr(road.options, "GROUP", ""))
    }
    return {**of_roads, **_TOPICS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser, extended())


def run(arguments: argparse.Namespace) -> int:
    """Convert and write the model."""
    from onnx_sparse.commands.conversion.source import check  # not to import it for the help

    settings = given(extended(), arguments)
    road = check(settings)
    return watched(lambda tell: _convert(road, settings, tell, json=arguments.json))


def _convert(road: AnyRoad, settings: ConvertSettings, tell: Progress, *, json: bool) -> int:
    from onnx_sparse.cli.convert import printing
    from onnx_sparse.commands.conversion.source import convert_source
    from onnx_sparse.models.data.references import holding_arrays

    with holding_arrays(), output.progress(f"reading {settings.source}", tell, quiet=json) as progress:
        made = convert_source(road, replace(settings, progress=progress))
    if not json:
        if settings.explain:
            printing.show_rules(made.document)
        _show(made.document, agrees=made.failure is None)
        if made.smaller is not None:
            printing.show_tables(made.smaller)
    if made.failure is not None:
        raise CommandError(made.failure, details=dict(made.document))
    if json:
        output.write_json(dict(made.document))
    return output.DONE


def _show(document: ConvertDocument, *, agrees: bool) -> None:
    from onnx_sparse.cli.convert import printing
    from onnx_sparse.commands.inputs.model_graph import who_runs
    from onnx_sparse.models.files.load_and_save import size_text

    if document["verification"] is not None:
        printing.show_verification(document["verification"])
        printing.show_inputs(document["verified_inputs"] or {})
        output.write_line()
    if not agrees:
        if "report" in document:
            output.labeled("report", document["report"])
        return
    ours = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in document["our_nodes"].items())
    none = f"none: {who_runs(document['other_domains'])}"
    opsets = ", ".join(f"{domain} {version}" for domain, version in document["opsets"].items())
    output.heading(f"{document['source']} -> {document['output']}")
    output.labeled("nodes", printing.nodes_line(document))
    output.labeled("custom", ours or none)
    if rules := printing.rules_line(document):
        output.labeled("rules", rules)
    if document["functions"]:
        output.write_line(f"  functions {document['functions']}")
    output.labeled("opsets", f"{opsets} (IR {document['ir_version']})")
    output.labeled("size", size_text(document["size"]))
    if "report" in document:
        output.labeled("report", document["report"])
    for note in document.get("notes", ()):
        output.labeled("note", note)
