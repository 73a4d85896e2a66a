"""Convert a model into an ONNX file with our operators, in canonical form: it runs on every backend.

The source is a TensorFlow SavedModel, GraphDef, checkpoint or Keras model, a program saved by
torch.export, an Ascend ATB or GE graph, an OpenVINO IR (the .xml next to its .bin), or an ONNX
file, which is brought to canonical form. With --fuse, patterns in an ONNX file of tf2onnx or of
torch's exporters become our operators, with the same answers.

The output file is written only if everything succeeds, including verification. Otherwise nothing
is written, and an existing file is not changed. If verification fails, --report still writes its
page.
"""

from __future__ import annotations

import argparse
import glob
import importlib
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.convert import printing
from onnx_sparse.cli.watch import watched
from onnx_sparse.commands import Progress, ascend_options, lookup_tables, verification, written_inputs
from onnx_sparse.commands.conversion import Conversion, Options, in_form
from onnx_sparse.commands.smaller_tables import SmallerTables
from onnx_sparse.converters.errors import ConversionError, UnknownSourceError
from onnx_sparse.converters.roads.table import road_of, roads
from onnx_sparse.errors import CommandError, UsageError

if TYPE_CHECKING:
    from onnx import ModelProto

NAME = "convert"
SUMMARY = "convert a TensorFlow, torch, Ascend, OpenVINO or ONNX model"
EXAMPLES = """
onnx-sparse convert saved_model/ -o model.onnx
onnx-sparse convert saved_model/ -o model.onnx --verify --portable --explain
onnx-sparse convert saved_model/ -o model.onnx --verify-with inputs.npz
onnx-sparse convert saved_model/ -o model.onnx --write-inputs inputs.json
onnx-sparse convert saved_model/ -o model.onnx --verify --report report.html
onnx-sparse convert model.keras -o model.onnx --import my_layers
onnx-sparse convert frozen.pb -o model.onnx --inputs ids:0,weights:0 --outputs logits:0
onnx-sparse convert model.ckpt.meta -o model.onnx --inputs x:0[-1,3] --outputs y:0
onnx-sparse convert model.onnx -o standard.onnx --lower --verify
onnx-sparse convert model.onnx -o standard.onnx --lower --opset 21
onnx-sparse convert saved_model/ -o models/
onnx-sparse convert saved_model/ -o model.onnx --features ragged --verify
onnx-sparse convert by_tf2onnx.onnx -o fused.onnx --fuse --explain --verify
onnx-sparse convert by_torch.onnx -o repaired.onnx --fuse --repair-scatter add
onnx-sparse convert layer.json -o layer.onnx --input-spec Layer_0_input_0:float16:2,3
onnx-sparse convert model.xml -o model.onnx --verify
onnx-sparse convert model.pt2 -o model.onnx --verify
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "source",
        type=Path,
        metavar="SRC",
        help="a SavedModel folder, .pb, .pbtxt, .meta, .keras, .h5, .pt2 (torch), .json, .air, .txt (ge_proto), "
        ".xml (OpenVINO) or .onnx",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT.onnx",
        help="the file to write, or a folder for one named like SRC",
    )
    parser.add_argument("--from", dest="origin", choices=tuple(roads()), help="what SRC is (default: from its name)")
    parser.add_argument("--signature", help="the SavedModel's signature (default: serving_default)")
    parser.add_argument("--tag", help="which graph of a SavedModel that has several (default: serve)")
    parser.add_argument(
        "--inputs",
        type=_names,
        metavar="A:0,B:0",
        help="the inputs, in this order; in a GraphDef any tensors. A shape that the model does not have may follow: "
        "A:0[-1,3]",
    )
    parser.add_argument("--outputs", type=_names, metavar="C:0", help="the graph's outputs, for a GraphDef")
    parser.add_argument(
        "--lookup-table",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="keys and values of a GraphDef's lookup table, by its node: an .npz file with the arrays keys and values, "
        "or text with a key and, after a tab, its value in each line; without a tab, the line's number from 0 on",
    )
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="import a module first: one that defines layers of a Keras model, or registers operators",
    )
    parser.add_argument(
        "--fuse",
        action="store_true",
        help="replace patterns of standard nodes in an ONNX file of tf2onnx or torch by our operators",
    )
    parser.add_argument(
        "--repair-scatter",
        action="append",
        default=[],
        metavar="REDUCTION|NODE=REDUCTION",
        help="with --fuse: repair scatters that keep only the last of rows with equal ids, although their source adds "
        "or averages the rows. The reduction is add, mean, mul, max or min. Without this option, a note names each",
    )
    parser.add_argument(
        "--check-ids",
        action="store_true",
        help="let all lookups refuse negative ids, which ONNX counts from the end. By default, lookups refuse them if "
        "TensorFlow or torch does",
    )
    parser.add_argument(
        "--features",
        choices=("ragged",),
        help="turn sparse features into values and row splits. If the model uses the positions of values in their "
        "rows, a feature stays sparse, and a note names the node",
    )
    ascend_options.add_arguments(parser)
    parser.add_argument(
        "--explain",
        action="store_true",
        help="list the rules and guards that replaced nodes, and where and why one did not apply",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--portable",
        action="store_true",
        help="add a body of standard ONNX for each of our operators, for runtimes that read functions, such as ONNX "
        "Runtime; registered kernels replace the bodies",
    )
    form.add_argument("--lower", action="store_true", help="standard ONNX only: replace our operators by their bodies")
    parser.add_argument(
        "--opset",
        type=int,
        metavar="N",
        help="the opset of ai.onnx, from 18 to the newest that ONNX Runtime takes (default: the lowest from 18 on that "
        "the model can have)",
    )
    files = parser.add_mutually_exclusive_group()
    files.add_argument(
        "--external-data",
        dest="external",
        action="store_true",
        default=None,
        help="put tensors into OUT.onnx.data, which processes share in memory (default: from 16 MiB on)",
    )
    files.add_argument("--one-file", dest="external", action="store_false", help="put tensors into OUT.onnx")
    parser.add_argument(
        "--tables",
        choices=("float16", "bfloat16", "int8", "int4"),
        help="make the float32 tables of lookups smaller. --verify compares the model with float32 tables, then "
        "reports the difference that smaller tables make",
    )
    parser.add_argument(
        "--verify", action="store_true", help="run both models on generated inputs; write only if they agree"
    )
    parser.add_argument(
        "--no-run",
        action="store_true",
        help="write a model of torch without running it. By default, it must load, and agree with torch on the "
        "program's example, with each of its sizes 0, 1 and doubled",
    )
    parser.add_argument(
        "--verify-with",
        action="append",
        default=[],
        metavar="FILE.npz|FILE.json|NAME=FILE|NAME=JSON",
        help="verify on these inputs, in the forms that `run` takes",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE.html",
        help="write a page about the conversion: graphs before and after, rules, verification, times",
    )
    parser.add_argument(
        "--write-inputs",
        type=Path,
        metavar="FILE.json|FILE.npz",
        help="write generated inputs for this model, to edit and to pass to --verify-with or `run`",
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in re.split(r",(?![^\[\]]*\])", text)]  # not between the sizes of a shape
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a comma-separated list of names")
    return names


def run(arguments: argparse.Namespace) -> int:
    """Convert and write the model."""
    arguments.output = _destination(arguments.output, arguments.source)
    origin = _checked_origin(arguments)
    return watched(lambda tell: _convert(origin, arguments, tell))


def options_of(origin: str, arguments: argparse.Namespace) -> Options:
    """What the command line asks for.

    Raises:
        CommandError: A file or module that it names cannot be read.
    """
    of_source: dict[str, Any] = {}
    if origin == "ascend":
        of_source = ascend_options.values(arguments)
    if origin == "torch":
        of_source = {"run": not arguments.no_run}
    if origin == "tensorflow":
        of_source = {name: getattr(arguments, name) for name in ("tag", "signature", "inputs", "outputs")}
        of_source["lookup_tables"] = lookup_tables.read(arguments.lookup_table)
        of_source["custom_objects"] = _definitions(arguments.imports)
    return Options(arguments.fuse, arguments.repair_scatter, arguments.check_ids, arguments.features, of_source)


def _definitions(modules: Sequence[str]) -> dict[str, Any]:
    """The classes and functions of modules, which are imported; the current directory is searched, too.

    Raises:
        CommandError: A module cannot be imported.
    """
    found: dict[str, Any] = {}
    sys.path.insert(0, str(Path.cwd()))
    try:
        for name in modules:
            module = importlib.import_module(name)
            own = (value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__)
            found |= {value.__name__: value for value in own if callable(value)}
    except Exception as error:  # whatever the module raises
        raise CommandError(f"--import {name}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return found


def _destination(output_name: str, source: Path) -> Path:
    """The file to write: in a folder, it has the name of the source."""
    path = Path(output_name)
    if not path.is_dir() and not output_name.endswith(("/", os.sep)):
        return path
    name = Path(os.path.realpath(source)).name
    return path / f"{name if source.is_dir() else Path(name).stem}.onnx"


def _convert(origin: str, arguments: argparse.Namespace, tell: Progress) -> int:
    from onnx_sparse.commands.feeds import read_feeds
    from onnx_sparse.files.new_file import state_of
    from onnx_sparse.models.load_and_save import save_model
    from onnx_sparse.models.references import holding_arrays

    in_place = arguments.output.exists() and arguments.output.samefile(arguments.source)
    made_from = state_of(arguments.output) if in_place else None
    conversion = Conversion(origin, arguments.source, options_of(origin, arguments))
    with holding_arrays(), output.progress(f"reading {arguments.source}", quiet=arguments.json) as show:

        def progress(stage: str) -> None:
            tell(stage)
            show(stage)

        plain = conversion.convert(progress)
        if arguments.write_inputs is not None:
            progress("making inputs")
            written_inputs.write(arguments.write_inputs, plain)
        model = in_form(plain, portable=arguments.portable, lower=arguments.lower, opset=arguments.opset)
        feeds = read_feeds(plain, arguments.verify_with) if arguments.verify_with else None
        records = conversion.verify(plain, model, progress, feeds) if _is_verified(arguments) else None
        failure = verification.failure(records or (), given=bool(arguments.verify_with))
        agrees = failure is None
        smaller = None
        if arguments.tables and agrees:
            progress(f"making tables {arguments.tables}")
            smaller = SmallerTables(plain, arguments.tables)
            model = in_form(smaller.model, portable=arguments.portable, lower=arguments.lower, opset=arguments.opset)
            if records is not None:
                smaller.distances = conversion.verify(smaller.model, model, progress, feeds)
        summary = _summary(model)
        if agrees:
            summary["size"] = save_model(model, arguments.output, external=arguments.external, made_from=made_from)
        if arguments.report is not None:
            _write_report(conversion, records, arguments, progress, refused=None if agrees else model, why=failure)
    document = {
        "source": str(arguments.source),
        "from": conversion.origin,
        "output": str(arguments.output) if agrees else None,
        **summary,
        **conversion.report.document(),
        "verification": None if records is None else [verification.document(record) for record in records],
        "verified_inputs": conversion.input_lines or None,
        "tables": None if smaller is None else smaller.document(),
        **({"notes": conversion.notes} if conversion.notes else {}),
        **({"report": str(arguments.report)} if arguments.report is not None else {}),
    }
    if not arguments.json:
        if arguments.explain:
            printing.show_rules(document)
        _show(document, agrees=agrees)
        if smaller is not None:
            printing.show_tables(smaller)
    if failure is not None:
        raise CommandError(failure, details=document)
    if arguments.json:
        output.write_json(document)
    return output.DONE


def _write_report(
    conversion: Conversion,
    records: Sequence[Any] | None,
    arguments: argparse.Namespace,
    progress: Progress,
    *,
    refused: ModelProto | None,
    why: str | None,
) -> None:
    """Write the report about the model that has been written, or about one that verification refused."""
    from onnx_sparse.commands.model_report import gather, write
    from onnx_sparse.commands.origin import Origin, picture_of_source
    from onnx_sparse.models.load_and_save import save_model

    made = Origin(arguments.source, conversion.origin, notes=list(conversion.notes))
    made.picture = picture_of_source(made, conversion.loaded)
    made.rules = conversion.report.document().get("rules")
    made.verification = None if records is None else [verification.document(record) for record in records]
    made.verified_inputs = conversion.input_lines
    made.options, made.is_timed = conversion.load_options
    if not made.is_timed:
        made.notes.append("the source is not timed: it needs the modules of --import")
    if refused is None:
        write(gather(arguments.output, made, progress=progress), arguments.report)
        return
    made.notes.insert(0, str(why))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / arguments.output.name
        save_model(refused, path, external=arguments.external)
        write(gather(path, made, times=False, progress=progress), arguments.report)


def _is_verified(arguments: argparse.Namespace) -> bool:
    return arguments.verify or bool(arguments.verify_with)


def _checked_origin(arguments: argparse.Namespace) -> str:
    """What the source is. All that can be refused early is refused here, before minutes of work."""
    from onnx_sparse.commands.feeds import read_files
    from onnx_sparse.files.new_file import check_writable

    source: Path = arguments.source
    _refuse_other_files(source)
    if source.is_file() and source.name == "saved_model.pb" and _begins_like_a_saved_model(source):
        raise CommandError(f"{source} belongs to a SavedModel; give its directory, {source.parent}")
    origin: str = arguments.origin or detect(source)
    ascend_options.check(origin, arguments)
    if arguments.explain and origin == "onnx" and not arguments.fuse:
        raise UsageError("--explain of an ONNX file is for --fuse")
    selected = arguments.tag or arguments.signature or arguments.inputs or arguments.outputs
    if origin in ("onnx", "openvino", "torch") and selected:
        raise UsageError(
            "--tag, --signature, --inputs and --outputs are for TensorFlow's models; others have their own"
        )
    if origin != "tensorflow" and arguments.lookup_table:
        raise UsageError("--lookup-table is for TensorFlow's GraphDefs")
    if origin != "torch" and arguments.no_run:
        raise UsageError("--no-run is for torch's programs; other models are run with --verify")
    if origin != "tensorflow" and arguments.imports:
        raise UsageError("--import is for TensorFlow's models")
    if arguments.opset is not None:
        _check_opset(arguments)
    written_inputs.check(arguments.write_inputs)
    if origin != "onnx" and arguments.fuse:
        raise UsageError("--fuse is for ONNX files")
    if arguments.repair_scatter:
        _check_repairs(arguments)
    keep: list[str | Path] = []
    if origin != "onnx":  # an ONNX file may be converted in place
        keep = [*_parts(source), *read_files(arguments.verify_with)]
    check_writable(arguments.output, keep=keep)
    if arguments.report is not None:
        check_writable(arguments.report, keep=[*_parts(source), *read_files(arguments.verify_with)])
        if arguments.report.absolute() == arguments.output.absolute():
            raise UsageError(f"--report {arguments.report}: it is the model's file; give another one")
    return origin


def _refuse_other_files(source: Path) -> None:
    """Refuse what does not exist, and the files of a checkpoint of TensorFlow that have no graph."""
    missing = CommandError(f"{source}: no such file or directory")
    if not source.exists() and not any(source.parent.glob(f"{glob.escape(source.name)}.*")):  # a checkpoint's prefix
        raise missing
    from onnx_sparse.converters.errors import ConversionError
    from onnx_sparse.converters.tensorflow.source_files import is_checkpoint_file, refuse_other_files

    if not is_checkpoint_file(source):
        if not source.exists():
            raise missing
        return
    try:
        refuse_other_files(source)
    except ConversionError as error:
        raise CommandError(error) from error


def _check_repairs(arguments: argparse.Namespace) -> None:
    if not arguments.fuse:
        raise UsageError("--repair-scatter is for --fuse")
    if _is_verified(arguments):
        raise UsageError("--repair-scatter changes the answers, so that --verify cannot compare with the file")


def _check_opset(arguments: argparse.Namespace) -> None:
    from onnx_sparse.commands.ort_limits import find_limits
    from onnx_sparse.schemas.function_body import BODY_OPSET

    newest = find_limits().opset
    if not BODY_OPSET <= arguments.opset <= newest:
        raise UsageError(
            f"--opset {arguments.opset}: models are written in opsets from {BODY_OPSET} on, and the installed "
            f"onnx and ONNX Runtime take {newest} at most"
        )


def _parts(source: Path) -> list[Path]:
    """The files and folders that a source consists of: those of a SavedModel, or an IR with its weights."""
    if source.is_dir():
        return [source / part for part in ("saved_model.pb", "saved_model.pbtxt", "variables", "assets")]
    return [source, source.with_suffix(".bin")]


def detect(source: Path) -> str:
    """What a source is, judged by its name and, for a folder, by its contents.

    Raises:
        CommandError: A folder is not a SavedModel.
        UsageError: The name does not tell.
    """
    try:
        return road_of(source).name
    except UnknownSourceError as error:
        raise UsageError(f"{error}; use --from") from error
    except ConversionError as error:
        raise CommandError(error) from error


def _begins_like_a_saved_model(path: Path) -> bool:
    """Whether a file begins with a SavedModel's version, and not with a node: said before TensorFlow is imported."""
    with path.open("rb") as file:
        return file.read(1) == b"\x08"


def _summary(model: ModelProto) -> dict[str, Any]:
    from onnx_sparse.commands.model_graph import nodes, opset_imports, other_domains

    placed = list(nodes(model))
    return {
        "nodes": len(placed),
        "our_nodes": dict(Counter(p.operator for p in placed if p.is_ours).most_common()),
        "other_domains": other_domains(model),
        "functions": len(model.functions),
        "opsets": opset_imports(model),
        "ir_version": model.ir_version,
    }


def _show(document: dict[str, Any], *, agrees: bool) -> None:
    from onnx_sparse.commands.model_graph import who_runs
    from onnx_sparse.models.load_and_save import size_text

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
    output.labeled("of ours", ours or none)
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
