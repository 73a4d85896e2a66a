"""Write a model repository for NVIDIA Triton: the model with its data, our native library if it needs it, and the
configuration.

Triton joins the rows of dense and ragged features of waiting requests. A client sends the values of a row only; Triton
computes the lengths of rows, and the written model the row splits. Models with other features are served one request at
a time, and the command gives the reason.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import path_argument
from onnx_sparse.cli.watch import watched
from onnx_sparse.commands import Progress
from onnx_sparse.errors import CommandError, UsageError, printable

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.rows.model_features import Features

NAME = "triton"
SUMMARY = "write a model repository for NVIDIA Triton"
EXAMPLES = """
onnx-sparse triton model.onnx -o repository/
onnx-sparse triton model.onnx -o repo/ --served-from /models --name baskets
onnx-sparse triton model.onnx -o repo/ --max-batch-size 256 \\
  --max-queue-delay 500 --instances 4 --threads 1
"""

_VERSION = "1"
_CONFIG = "config.pbtxt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", type=path_argument, metavar="MODEL", help="an ONNX file")
    parser.add_argument(
        "-o", "--output", type=path_argument, required=True, metavar="REPOSITORY", help="the repository, a folder"
    )
    parser.add_argument("--name", help="the model's name in the repository (default: MODEL's)")
    parser.add_argument(
        "--served-from",
        type=PurePosixPath,
        metavar="PATH",
        help="where the server will find the repository, as in a container (default: where it is written)",
    )
    parser.add_argument(
        "--max-batch-size", type=int, default=64, metavar="N", help="the most rows of a batch, 0 for none (default: 64)"
    )
    parser.add_argument(
        "--max-queue-delay",
        type=int,
        default=0,
        metavar="MICROSECONDS",
        help="how long a request waits for others while the model is idle (default: 0)",
    )
    parser.add_argument("--instances", type=int, default=1, metavar="N", help="how many sessions (default: 1)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of each session (default: one for each core)")


def run(arguments: argparse.Namespace) -> int:
    """Write the repository."""
    for option, least in (("max_batch_size", 0), ("max_queue_delay", 0), ("instances", 1), ("threads", 1)):
        value = getattr(arguments, option)
        if value is not None and not least <= value < 2**31:
            raise UsageError(f"--{option.replace('_', '-')} {value}: at least {least} expected")
    name = arguments.model.stem if arguments.name is None else arguments.name
    if not name or name.startswith(".") or any(c in "/\\" or not c.isprintable() for c in name):
        raise UsageError(f"{name!r} cannot be the name of a model; --name gives another")
    return watched(lambda tell: _run(arguments, name, tell))


def _run(arguments: argparse.Namespace, name: str, tell: Progress) -> int:
    from onnx_sparse.commands.description.findings import refuse_domain_errors
    from onnx_sparse.commands.description.forms import DOMAIN_FORM, form_of
    from onnx_sparse.files.new_folder import new_parts
    from onnx_sparse.models.files.load_and_save import load_model

    model = load_model(arguments.model)
    refuse_domain_errors(model, arguments.model)
    folder: Path = arguments.output / name
    _check_folder(folder, arguments.model)
    known = _features(model, arguments.model)
    library = _library() if form_of(model) == DOMAIN_FORM else None
    with output.progress(f"reading {arguments.model}", quiet=arguments.json):
        tell(f"running {arguments.model}")
        reason, notes = _obstacle(arguments, known)
        with new_parts(folder) as part:
            tell(f"writing {folder}")
            document = _write(model, known, part, folder, arguments, batched=reason is None, library=library)
    document = {
        "model": str(arguments.model),
        "repository": str(arguments.output),
        "name": name,
        "not_batched_because": reason,
        **document,
        **({"notes": notes} if notes else {}),
    }
    if arguments.json:
        output.write_json(document)
    else:
        _show(document, folder)
    return output.DONE


def _check_folder(folder: Path, source: Path) -> None:
    """Refuse to replace what the command has not written, or what it reads."""
    from onnx_sparse.cli.triton.config import MARK

    if Path(os.path.realpath(source)).is_relative_to(os.path.realpath(folder)):
        raise UsageError(f"cannot write {folder}: it is where this command reads {source}")
    config = folder / _CONFIG
    is_ours = config.is_file() and config.read_bytes().startswith(MARK.encode())
    if folder.is_dir() and not is_ours and any(not entry.name.startswith(".") for entry in folder.iterdir()):
        raise CommandError(f"cannot write {folder}: it has other files; remove them, or choose another --name")


def _features(model: ModelProto, source: Path) -> Features:
    from onnx_sparse.rows.model_features import features

    try:
        known = features(model)
    except ValueError as error:
        raise CommandError(f"{source}: {error}") from error
    for feature in known.values():
        if feature.kind == "example":
            raise CommandError(
                f"feature {printable(feature.name)} is serialized messages, which Triton cannot hand over: its "
                "ONNX Runtime backend ends each string at its first byte 0, and messages have many"
            )
    return known


def _library() -> Path:
    from onnx_sparse.sessions.runtime import get_library_path

    if sys.platform != "linux":
        raise CommandError(
            "Triton needs the native library for Linux, which this installation does not have: run the command on "
            "Linux, or on a model of `onnx-sparse convert --portable`, which needs none"
        )
    try:
        return Path(get_library_path())
    except FileNotFoundError as error:
        raise CommandError(
            "the model needs the native library, which this installation does not have; a model of "
            "`onnx-sparse convert --portable` needs none"
        ) from error


def _obstacle(arguments: argparse.Namespace, known: Features) -> tuple[str | None, list[str]]:
    """Why requests are not batched, if they are not, and notes for the user."""
    from onnx_sparse.cli.triton.batching import obstacle
    from onnx_sparse.rows.row_independence import UNTRIED, try_rows
    from onnx_sparse.sessions.ort_errors import ort_message
    from onnx_sparse.sessions.quiet import quiet_options
    from onnx_sparse.sessions.runtime import InferenceSession

    if not arguments.max_batch_size:
        return "--max-batch-size 0", []
    try:
        session = InferenceSession(arguments.model, quiet_options(), providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common class
        raise CommandError(f"{arguments.model} cannot be opened: {ort_message(error)}") from error
    reason = obstacle(session, known)
    if reason is not None:
        return reason, []
    tried, reason = try_rows(session, known)
    return (reason, []) if tried else ("its rows were not tried", [UNTRIED])


def _write(
    model: ModelProto,
    known: Features,
    part: Path,
    folder: Path,
    arguments: argparse.Namespace,
    *,
    batched: bool,
    library: Path | None,
) -> dict[str, Any]:
    """Write the files, and read from the model what Triton will: the inputs and outputs that ONNX Runtime says."""
    from onnx_sparse.cli.triton.batching import take_row_lengths
    from onnx_sparse.cli.triton.config import Batching, config_text, model_config
    from onnx_sparse.models.files.load_and_save import save_model

    lengths = take_row_lengths(model, known) if batched else {}
    _state_ranks(model)
    version = part / _VERSION
    version.mkdir()
    save_model(model, version / "model.onnx", read_from=arguments.model)
    size = sum(path.stat().st_size for path in version.iterdir())
    served_library = None
    if library is not None:
        shutil.copyfile(library, version / library.name)
        served_from = arguments.served_from or Path(os.path.abspath(arguments.output))
        served_library = str(served_from / folder.name / _VERSION / library.name)
    config = model_config(
        folder.name,
        _opened(version / "model.onnx", library),
        Batching(arguments.max_batch_size if batched else 0, arguments.max_queue_delay, lengths),
        library=served_library,
        instances=arguments.instances,
        threads=arguments.threads,
    )
    (part / _CONFIG).write_text(config_text(config), "utf-8")
    return {
        "files": sorted(str(path.relative_to(part)) for path in part.rglob("*") if path.is_file()),
        "size": size,
        "library": served_library,
        "config": config,
    }


def _state_ranks(model: ModelProto) -> None:
    """Write the shapes of outputs that the model does not declare: Triton takes those for scalars.

    Raises:
        CommandError: The shape of an input or output is not known.
    """
    from onnx_sparse.commands.inputs.model_graph import infer_types, required_inputs

    unknown = [value for value in model.graph.output if not value.type.tensor_type.HasField("shape")]
    if unknown:
        inferred = {value.name: value for value in infer_types(model).graph.output}
        for value in unknown:
            value.CopyFrom(inferred[value.name])
    for role, values in (("input", required_inputs(model)), ("output", model.graph.output)):
        for value in values:
            if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
                raise CommandError(
                    f"the model does not say how many dimensions {role} {printable(value.name)} has; Triton "
                    "must know it"
                )


def _opened(path: Path, library: Path | None) -> Any:
    """A session as Triton opens it: none of our Python code has a part in it."""
    import onnxruntime

    from onnx_sparse.sessions.ort_errors import ort_message
    from onnx_sparse.sessions.quiet import quiet_options

    options = quiet_options()
    try:
        if library is not None:
            options.register_custom_ops_library(str(library))
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common class
        raise CommandError(f"ONNX Runtime refuses the model for Triton: {ort_message(error)}") from error


def _show(document: dict[str, Any], folder: Path) -> None:
    from onnx_sparse.models.files.load_and_save import size_text

    config = document["config"]
    rows = config["max_batch_size"]
    reason = document["not_batched_because"]
    batches = f"up to {rows} rows" if rows else f"none: {reason}"
    output.heading(f"{document['model']} -> {folder}")
    output.write_line(f"  batches   {printable(batches)}")
    output.write_line(f"  library   {document['library'] or 'none: the model has standard operators or their bodies'}")
    output.write_line(f"  size      {size_text(document['size'])}")
    for note in document.get("notes", ()):
        output.write_line(f"  note      {note}")
    output.write_line()
    cells = []
    for role in ("input", "output"):
        for value in config[role]:
            shape = ["rows"] * bool(rows) + ["?" if size < 0 else str(size) for size in value["dims"]]
            cells.append([role, value["name"], value["data_type"].removeprefix("TYPE_"), f"[{', '.join(shape)}]"])
    output.table(["", "name", "type", "shape in a request"], cells)
