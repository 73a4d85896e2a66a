"""Convert a TensorFlow model with sparse operators to ONNX, run it in ONNX Runtime, and compare the answers.

The conversion needs no TensorFlow. If TensorFlow is not installed, the demo uses a model and recorded answers of
TensorFlow from this package.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import path_argument
from onnx_sparse.cli.demo.baskets import ANSWERS_FILE, INPUTS, ITEMS, SAVED_MODEL, make_feeds, make_rows
from onnx_sparse.cli.demo.sources import keep_sources, source_names
from onnx_sparse.commands import Progress
from onnx_sparse.errors import FAILED, CommandError, UsageError, printable
from onnx_sparse.files.termination import termination_raised

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.cli.demo.baskets import Arrays

NAME = "demo"
SUMMARY = "see a TensorFlow model run in ONNX Runtime, with the same answer"
EXAMPLES = """
onnx-sparse demo
onnx-sparse demo --keep try_it
onnx-sparse inspect try_it/baskets.onnx  # after that
onnx-sparse demo --keep try_it --all
"""

#: What --keep leaves.
_MODEL, _INPUTS, _ROWS, _SAVED_MODEL = "baskets.onnx", "inputs.npz", "baskets.csv", "saved_model"

_CODE = """\
filled, was_empty = tf.sparse.fill_empty_rows(baskets, default_value=0)
totals = tf.sparse.segment_sum(table, filled.values, filled.indices[:, 0])"""


@dataclass(frozen=True)
class _Demonstration:
    """What the demo shows.

    Attributes:
        saved_model: The SavedModel.
        model: The converted model.
        answers: TensorFlow's answers.
        tensorflow: The version of TensorFlow that gave them.
        recorded: Whether they were recorded rather than computed now.
    """

    saved_model: Path
    model: ModelProto
    answers: Arrays
    tensorflow: str
    recorded: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--keep", type=path_argument, metavar="DIR", help="keep the models and the inputs in this folder"
    )
    parser.add_argument(
        "--all", action="store_true", help="with --keep: also small models from OpenVINO, torch, tf2onnx and Ascend"
    )
    parser.add_argument(
        "--recorded", action="store_true", help="show the recorded answers even where TensorFlow is installed"
    )


def run(arguments: argparse.Namespace) -> int:
    """Convert, run and compare."""
    from onnx_sparse.commands.inputs.model_graph import nodes

    if arguments.all and not arguments.keep:
        raise UsageError("--all keeps sources: say where with --keep DIR")
    with termination_raised(), tempfile.TemporaryDirectory(prefix="onnx_sparse_demo_") as scratch:
        folder = _folder(arguments.keep, source_names() if arguments.all else ()) if arguments.keep else Path(scratch)
        with output.progress("converting", quiet=arguments.json) as progress:
            if arguments.recorded or not _has_tensorflow():
                shown = load_recorded()
            else:
                progress("loading TensorFlow")
                shown = _run_tensorflow(folder / _SAVED_MODEL, progress)
            progress("running in ONNX Runtime")
            ours = _run(shown.model)
        kept = _keep(shown, folder) if arguments.keep else []
        others = keep_sources(folder) if arguments.all else []
    comparison = [_compare(name, shown.answers[name], ours[name]) for name in shown.answers]
    same = all(line["same"] for line in comparison)
    document = {
        "ok": same,
        "tensorflow": shown.tensorflow,
        "recorded": shown.recorded,
        "our_nodes": [p.op.name for p in nodes(shown.model) if p.op],
        "inputs": INPUTS,
        "tensorflow_answers": {name: answer.tolist() for name, answer in shown.answers.items()},
        "onnxruntime_answers": {name: answer.tolist() for name, answer in ours.items()},
        "comparison": comparison,
        "kept": [str(path) for path in kept],
        "sources": [str(path) for path in others],
    }
    if arguments.json:
        output.write_json(document)
    else:
        _show(document, len(shown.model.graph.node))
    return output.DONE if same else FAILED


def load_recorded() -> _Demonstration:
    """The demonstration of the model that comes with the package."""
    import numpy as np

    folder = Path(__file__).parent
    recorded = json.loads((folder / ANSWERS_FILE).read_text(encoding="utf-8"))
    answers = {name: np.array(a["values"], a["dtype"]) for name, a in recorded["answers"].items()}
    saved_model = folder / SAVED_MODEL
    return _Demonstration(saved_model, _converted(saved_model), answers, recorded["tensorflow"], recorded=True)


def _has_tensorflow() -> bool:
    return importlib.util.find_spec("tensorflow") is not None


def _run_tensorflow(saved_model: Path, progress: Progress) -> _Demonstration:
    from importlib.metadata import version

    from onnx_sparse.cli.demo.tensorflow_model import save_model

    answers = save_model(saved_model)
    model = _converted(saved_model, progress)
    return _Demonstration(saved_model, model, answers, version("tensorflow"), recorded=False)


def _converted(saved_model: Path, progress: Progress | None = None) -> ModelProto:
    from onnx_sparse.converters import ConversionError, tensorflow

    try:
        return tensorflow.convert(saved_model, progress=progress)
    except ConversionError as error:
        raise CommandError(error) from error


def _run(model: ModelProto) -> Arrays:
    from onnx_sparse.sessions.runtime import InferenceSession

    session = InferenceSession(model)
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, make_feeds()), strict=True))


def _compare(name: str, expected: Any, actual: Any) -> dict[str, Any]:
    import numpy as np

    alike = expected.dtype == actual.dtype and expected.shape == actual.shape
    bits = alike and expected.tobytes() == actual.tobytes()
    apart = float(np.abs(expected.astype(float) - actual.astype(float)).max(initial=0)) if alike else None
    return {"output": name, "same": bool(alike and np.allclose(expected, actual)), "same_bits": bits, "max_abs": apart}


def _folder(path: Path, more: Sequence[str]) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot make the directory {path}: {error.strerror or error}") from error
    own = [name for name in (_INPUTS, _ROWS, _SAVED_MODEL, *more) if (path / name).exists()]
    if own and not (path / _MODEL).exists():  # the files of an earlier demo are replaced
        raise CommandError(f"{path / own[0]} exists and is not from a demo; give --keep another folder")
    return path


def _keep(shown: _Demonstration, folder: Path) -> list[Path]:
    """Write the model and its inputs; returns the paths of everything kept."""
    from onnx_sparse.files.array_file import save_npz
    from onnx_sparse.files.new_file import new_file
    from onnx_sparse.models.files.load_and_save import save_model

    model_path, inputs_path, rows_path = folder / _MODEL, folder / _INPUTS, folder / _ROWS
    save_model(shown.model, model_path)
    save_npz(inputs_path, make_feeds())
    with new_file(rows_path) as file:
        file.write(make_rows().encode())
    if shown.recorded:
        shutil.copytree(shown.saved_model, folder / _SAVED_MODEL, dirs_exist_ok=True)
    return [model_path, inputs_path, rows_path, folder / _SAVED_MODEL]


def _show(document: dict[str, Any], node_count: int) -> None:
    tensorflow = f"TensorFlow {document['tensorflow']}"
    from rich.text import Text

    output.heading("A TensorFlow model with sparse operators, in ONNX Runtime")
    output.write_line()
    output.write_line("Four baskets, one of them empty. What is each worth, and how nourishing is it?")
    output.write_line()
    for line in _CODE.splitlines():
        output.show(Text(f"    {line}", style="cyan", no_wrap=True))
    output.write_line()
    ours = " and ".join(document["our_nodes"])
    output.write_line(f"Converted to ONNX: {node_count} nodes, with {ours}.")
    if document["recorded"]:
        version = document["tensorflow"]
        output.write_line(f"TensorFlow's answers are recorded ({version}); all else is computed now.")
    output.write_line()
    theirs, mine = (document[f"{name}_answers"] for name in ("tensorflow", "onnxruntime"))
    rows = [
        [basket, _contents(basket), *map(_money, theirs["totals"][basket]), *map(_money, mine["totals"][basket])]
        for basket in range(len(theirs["totals"]))
    ]
    output.table(
        [">\nbasket", "\nitems", f">{tensorflow}\nprice", ">\nkcal", ">ONNX Runtime\nprice", ">\nkcal"],
        rows,
    )
    output.write_line()
    _show_verdict(document)
    if document["kept"]:
        model, inputs, rows_file, saved_model = (shlex.quote(printable(path)) for path in document["kept"])
        output.write_line()
        output.write_line("Try them:")
        output.write_line(f"  onnx-sparse inspect {model}")
        output.write_line(f"  onnx-sparse run {model} --input {inputs}")
        output.write_line(f"  onnx-sparse score {model} {rows_file} -o scores/")
        verify = "" if document["recorded"] else " --verify"
        output.write_line(f"  onnx-sparse convert {saved_model} -o again.onnx{verify}")
    if document["sources"]:
        output.write_line()
        output.write_line("Sources of the other roads, which the guides use:")
        for path in document["sources"]:
            output.write_line(f"  {printable(path)}")


def _show_verdict(document: dict[str, Any]) -> None:
    from rich.text import Text

    if all(line["same_bits"] for line in document["comparison"]):
        output.show(Text("The answers are the same, to the last bit.", style="bold green"))
        return
    for line in document["comparison"]:
        verdict = "the same to the last bit" if line["same_bits"] else f"{line['max_abs']} apart"
        output.show(Text(f"{line['output']}: {verdict}", style="green" if line["same"] else "bold red"))


def _contents(basket: int) -> str:
    entries = zip(INPUTS["indices"], INPUTS["items"], strict=True)
    items = [ITEMS[item][0] for (row, _place), item in entries if row == basket]
    return ", ".join(items) or f"(empty: {ITEMS[0][0]})"


def _money(value: float) -> str:
    return f"{value:.7g}"
