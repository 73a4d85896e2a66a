"""Run the layers of an Ascend dump on the CPU and compare the results with the NPU's.

DUMP_DIR is a folder that `msit llm dump` or msprobe wrote: graphs in layer/ or info/layer/,
tensors in tensors/ or data/. Each layer runs in ONNX Runtime on the dump's own inputs; every
tensor that the NPU wrote is compared with ours, and the worst are listed first. A difference
spreads to later operations: look at the first in execution order, which the last line names.
"""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from onnx_sparse.cli import ascend_options, output

if TYPE_CHECKING:
    from onnx_sparse.converters import ConversionError
    from onnx_sparse.converters.ascend.atb.replay import Comparison, Replay

NAME = "replay"
SUMMARY = "run the layers of an Ascend dump and compare with the NPU"
EXAMPLES = """
onnx-sparse replay msit_dump_20260101_120000/
onnx-sparse replay atb_dump_data/ --layer ExpertFilter_0
onnx-sparse replay atb_dump_data/ --tolerance 1e-3 --json
"""

_STYLES = {"equal": "green", "ok": "green", "DIFFERS": "bold red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("dump", type=Path, metavar="DUMP_DIR", help="the folder that the dump tool wrote")
    parser.add_argument("--layer", default="", metavar="NAME", help="run only this layer (default: all with tensors)")
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="NUMBER",
        help="how far a floating-point tensor may be from the NPU's, relative to the largest value in it "
        "(default: 4e-3 for float16, 3e-2 for bfloat16, 1e-4 for float32)",
    )
    ascend_options.add_fill_arguments(parser)
    parser.add_argument(
        "--backend", choices=("auto", "native", "python"), default="auto", help="the kernels (default: %(default)s)"
    )


def _tolerance(text: str) -> float:
    with contextlib.suppress(ValueError):
        if float(text) >= 0:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number >= 0")


def run(arguments: argparse.Namespace) -> int:
    """Replay the layers."""
    from onnx_sparse.cli.runnable_backends import chosen_backend
    from onnx_sparse.converters import ConversionError
    from onnx_sparse.converters.ascend.atb.handlers import Choices
    from onnx_sparse.converters.ascend.atb.replay import find_graphs, replay

    if not arguments.dump.is_dir():
        reason = "a file; give the dump's folder" if arguments.dump.exists() else "no such directory"
        raise output.CommandError(f"{arguments.dump}: {reason}")
    backend = chosen_backend(arguments.backend)
    choices = Choices(arguments.fill_value, arguments.fp16_overflow)
    replays: list[Replay] = []
    failures: dict[str, ConversionError] = {}
    with output.progress(f"reading {arguments.dump}", quiet=arguments.json) as progress:
        try:
            found = find_graphs(arguments.dump, arguments.layer)
        except ConversionError as error:
            raise output.CommandError(error) from error
        for path, graph, records in found:
            progress(f"running {graph.name}")
            try:
                replays.append(replay(path, graph, records, choices, backend=backend, tolerance=arguments.tolerance))
            except ConversionError as error:  # the other layers are still run
                failures[graph.name] = error
    layers = [_document(replayed) for replayed in replays]
    document = {
        "dump": str(arguments.dump),
        "backend": backend,
        "layers": layers,
        "not_run": {name: str(error) for name, error in failures.items()},
    }
    if not arguments.json:
        for position, layer in enumerate(layers):
            if position:
                output.write_line()
            _show(layer)
    if failures:
        _raise_for(failures, document)
    differing = [(r, c) for r in replays for c in r.comparisons if not c.ok]
    if differing:
        first_layer, first = differing[0]
        raise output.CommandError(
            f"{len(differing)} of {sum(len(r.comparisons) for r in replays)} tensors differ; the first in execution "
            f"order is {first.tensor} of {first.operation} in {first_layer.graph}",
            details=document,
        )
    if arguments.json:
        output.write_json(document)
    return output.DONE


def _raise_for(failures: dict[str, ConversionError], document: dict[str, Any]) -> NoReturn:
    """Fail with the reason for each layer that was not run."""
    lines = []
    if not document["layers"] and len(failures) == 1:
        ((name, error),) = failures.items()
        reasons = [str(node) for node in error.unsupported]
        raise output.CommandError(_reason(name, error), details=document, lines=reasons)
    for name, error in failures.items():
        lines.append(_reason(name, error))
        lines += [f"  {node}" for node in error.unsupported]
    count = len(failures)
    raise output.CommandError(
        f"{count} layer{'s were' if count > 1 else ' was'} not run, {len(document['layers'])} were",
        details=document,
        lines=lines,
    )


def _reason(layer: str, error: ConversionError) -> str:
    """The first line of an error; some begin with the layer's name."""
    return f"{layer}: {str(error).partition(chr(10))[0].removeprefix(f'{layer}: ')}"


def _document(replayed: Replay) -> dict[str, Any]:
    tensors = [_record(comparison) for comparison in sorted(replayed.comparisons, key=_badness)]
    return {"layer": replayed.graph, "source": str(replayed.source), "notes": list(replayed.notes), "tensors": tensors}


def _badness(comparison: Comparison) -> tuple[bool, float]:
    """Sorts the worst first: tensors that differ, then by the largest relative difference."""
    return comparison.ok, -comparison.max_rel


def _record(comparison: Comparison) -> dict[str, Any]:
    verdict = "equal" if comparison.equal and comparison.ok else "ok" if comparison.ok else "DIFFERS"
    return {
        "operation": comparison.operation,
        "tensor": comparison.tensor,
        "dtype": comparison.dtype,
        "shape": list(comparison.shape),
        "max_abs": comparison.max_abs,
        "max_rel": comparison.max_rel,
        "cosine": comparison.cosine,
        "verdict": verdict,
        "note": comparison.note,
    }


def _show(layer: dict[str, Any]) -> None:
    output.heading(layer["layer"])
    rows = [
        [
            record["operation"],
            record["tensor"],
            record["dtype"],
            f"[{', '.join(map(str, record['shape']))}]",
            _number(record["max_abs"]),
            _number(record["max_rel"]),
            "-" if record["cosine"] is None else f"{record['cosine']:.6f}",
            record["verdict"],
            record["note"],
        ]
        for record in layer["tensors"]
    ]
    columns = ["operation", "tensor", "type", "shape", ">max abs", ">max rel", ">cosine", "verdict", "note"]
    output.table(columns, rows, styles=_STYLES)
    for note in layer["notes"]:
        output.write_line(f"note: {output.printable(note)}")


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"
