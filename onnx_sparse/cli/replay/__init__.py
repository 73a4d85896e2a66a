"""Run the layers of an Ascend dump on the CPU and compare the results with the NPU's.

DUMP_DIR is a folder that `msit llm dump` or msprobe wrote: graphs in layer/ or info/layer/, tensors in tensors/ or
data/. Every layer, round and device in it is replayed. Each operation runs in ONNX Runtime on the tensors that the NPU
passed to it, so the error of one operation does not spread to others. The worst tensors are listed first. Operations
that cannot run (plugins, communication between devices) are listed, and their results are taken from the dump. With
--chain, each operation reads the results computed here: that shows how an error grows.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_options, path_argument
from onnx_sparse.cli.replay.table import SUFFIXES, check_package, rows, write_table
from onnx_sparse.converters.ascend.options import FillOptions
from onnx_sparse.errors import CommandError, printable
from onnx_sparse.files.new_file import check_writable

if TYPE_CHECKING:
    from onnx_sparse.converters.ascend.atb.comparison import Comparison
    from onnx_sparse.converters.ascend.atb.operation import OperationRunner
    from onnx_sparse.converters.ascend.atb.replay_outcomes import Outcome, Replay
    from onnx_sparse.converters.ascend.atb.runs import Run
    from onnx_sparse.converters.ascend.atb.two_dumps import Pair

NAME = "replay"
SUMMARY = "run the layers of an Ascend dump and compare with the NPU"
EXAMPLES = """
onnx-sparse replay msit_dump_20260101_120000/
onnx-sparse replay atb_dump_data/ --layer ExpertFilter_0 --plot errors.svg
onnx-sparse replay atb_dump_data/ --report page.html -o table.csv
onnx-sparse replay quantized_dump/ --compare float_dump/
onnx-sparse replay atb_dump_data/ --chain
onnx-sparse replay atb_dump_data/ --tolerance 1e-3 --json
"""

_STYLES = {"equal": "green", "ok": "green", "DIFFERS": "bold red", "FAILED": "bold red", "not compared": "yellow"}
#: Layers that agree are one line each if there are more than this.
_MOST_TABLES = 4
#: As many reasons are listed below an error.
_MOST_LINES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("dump", type=path_argument, metavar="DUMP_DIR", help="the folder that the dump tool wrote")
    parser.add_argument("--layer", default="", metavar="NAME", help="run only this layer (default: all with tensors)")
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="NUMBER",
        help="how far an element of a floating-point tensor may be from the NPU's, relative to its magnitude "
        "(default: 2^-8 for float16, 2^-7 for bfloat16, 2^-12 for float32)",
    )
    parser.add_argument("--chain", action="store_true", help="pass results on, instead of reading each from the dump")
    parser.add_argument(
        "-o", "--output", type=path_argument, metavar="FILE", help="write a table of all tensors: .csv, .xlsx or .json"
    )
    parser.add_argument(
        "--report", type=path_argument, metavar="FILE.html", help="write a page with the worst tensors first"
    )
    parser.add_argument(
        "--compare",
        type=path_argument,
        metavar="DUMP_DIR",
        help="replay another dump of the same model, too, and say which of the two is wrong where they differ",
    )
    parser.add_argument(
        "--plot", type=path_argument, metavar="FILE.svg", help="draw the error of each operation into this file"
    )
    add_options(parser, FillOptions)
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
    from onnx_sparse.commands.description.runnable_backends import chosen_backend
    from onnx_sparse.converters.ascend.atb.handlers import Choices
    from onnx_sparse.converters.ascend.atb.operation import OperationRunner
    from onnx_sparse.converters.ascend.atb.two_dumps import pairs

    formats = {arguments.output: SUFFIXES, arguments.report: (".html",), arguments.plot: (".svg",)}
    for path, suffixes in formats.items():
        if path is not None:
            check_package(path)
            # A dump has tables and parameters, but neither pages nor plots.
            check_writable(path, *suffixes, keep=[arguments.dump] if path == arguments.output and path.exists() else [])
    backend = chosen_backend(arguments.backend)
    runner = OperationRunner(Choices(arguments.fill_value, arguments.fp16_overflow), backend)
    replays, not_run, left_out = _replays(arguments.dump, arguments, runner)
    document = {
        "dump": str(arguments.dump),
        "backend": backend,
        "chain": arguments.chain,
        "layers": [_document(replayed) for replayed in replays],
        "not_run": not_run,
        "left_out": left_out,
        "notes": list(runner.notes),
    }
    compared: list[Pair] = []
    if arguments.compare is not None:
        others, others_not_run, _ = _replays(arguments.compare, arguments, runner)
        compared = list(pairs(replays, others, arguments.tolerance))
        document["compared"] = {
            "dump": str(arguments.compare),
            "not_run": others_not_run,
            "tensors": [_pair(pair) for pair in compared],
        }
        if not compared:
            raise CommandError(f"{arguments.compare} has none of the tensors of {arguments.dump}")
    if arguments.output is not None:
        write_table(arguments.output, rows(replays))
    if arguments.report is not None:
        from onnx_sparse.cli.replay.page import write_page

        write_page(arguments.report, str(arguments.dump), [(_label(replayed.run), replayed) for replayed in replays])
    if arguments.plot is not None:
        from onnx_sparse.cli.replay.plot import write_plot

        write_plot(arguments.plot, [(_label(replayed.run), replayed.outcomes) for replayed in replays])
    if not arguments.json:
        _show(replays, document)
        _show_pairs(compared)
    _check(replays, document)
    if arguments.json:
        output.write_json(document)
    return output.DONE


def _replays(
    dump: Path, arguments: argparse.Namespace, runner: OperationRunner
) -> tuple[list[Replay], dict[str, str], list[str]]:
    """The layers of a dump; why some could not be run; and what was skipped."""
    from onnx_sparse.converters import ConversionError
    from onnx_sparse.converters.ascend.atb.replay import replay
    from onnx_sparse.converters.ascend.atb.runs import find_runs

    if not dump.is_dir():
        raise CommandError(
            f"{dump} is a file; give the dump's folder" if dump.exists() else f"{dump}: no such directory"
        )
    replays: list[Replay] = []
    not_run: dict[str, str] = {}
    with output.progress(f"reading {dump}", quiet=arguments.json) as progress:
        try:
            found = find_runs(dump, arguments.layer)
        except ConversionError as error:
            raise CommandError(error) from error
        for position, layer in enumerate(found.runs, 1):
            progress(f"running {_label(layer)} ({position} of {len(found.runs)})")
            try:
                settings = {"tolerance": arguments.tolerance, "chain": arguments.chain, "others": found.runs}
                replays.append(replay(layer, runner, **settings))
            except ConversionError as error:  # the other layers are still run
                not_run[_label(layer)] = _reason(layer.graph.name, error)
    return replays, not_run, list(found.left_out)


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "layer": _label(pair.first.run),
        "other_layer": _label(pair.second.run),
        "operation": pair.operation,
        "tensor": pair.tensor,
        "verdict": pair.verdicts[0],
        "other_verdict": pair.verdicts[1],
        "between": None if pair.between is None else _record(pair.between),
        "cause": pair.cause,
    }


def _show_pairs(pairs: list[Pair]) -> None:
    """The tensors that differ between two dumps, in the order of execution: the first one is where they part."""
    if not pairs:
        return
    differing = [pair for pair in pairs if pair.cause]
    output.heading(f"{len(differing)} of {len(pairs)} tensors differ between the dumps")
    table = [
        [
            _label(pair.first.run),
            pair.operation,
            pair.tensor,
            *pair.verdicts,
            "-" if pair.between is None else _number(pair.between.max_rel),
            pair.cause,
        ]
        for pair in differing[:_MOST_LINES]
    ]
    columns = ["layer", "operation", "tensor", "first dump", "second dump", ">max rel between", "cause"]
    output.table(columns, table, styles=_STYLES)
    if len(differing) > _MOST_LINES:
        output.write_line(f"and {len(differing) - _MOST_LINES} more; see them with --json")


def _label(run: Run) -> str:
    """The name of a layer, with the round and device where the dump has several."""
    where = [f"round {run.round}"] if run.round else []
    where += [f"device {run.device.partition('_')[0]}"] if run.device else []
    if run.identity and not run.graph.name.endswith(f"_{run.identity}"):
        where.insert(0, f"id {run.identity}")
    return run.graph.name + (f" ({', '.join(where)})" if where else "")


def _check(replays: list[Replay], document: dict[str, Any]) -> None:
    """Fail with the first difference, or because something could not be compared that should have been.

    Raises:
        CommandError: Not all that was compared agrees, or nothing was compared.
    """
    failed = [(r, o) for r in replays for o in r.outcomes if o.failed]
    lines = [f"{_label(r.run)}: {o.operation} ({o.op_type}): {o.reason}" for r, o in failed]
    lines += [f"{name}: {reason}" for name, reason in document["not_run"].items()]
    compared = sum(len(r.comparisons) for r in replays)
    differing = [(r, c) for r in replays for c in r.comparisons if not c.ok]
    if differing:
        first_layer, first = differing[0]
        raise CommandError(
            f"{len(differing)} of {compared} tensors differ; the first in execution order is {first.tensor} of "
            f"{first.operation} in {_label(first_layer.run)}",
            details=document,
            lines=_first(lines),
        )
    if failed and not document["not_run"] and len(lines) == 1:
        ((replayed, outcome),) = failed
        raise CommandError(
            f"{_label(replayed.run)}: {outcome.operation} ({outcome.op_type}) {_as_predicate(outcome.reason)}",
            details=document,
        )
    if lines:
        count, layers = len(failed), len(document["not_run"])
        parts = [f"{count} operation{'s' if count > 1 else ''} failed"] if count else []
        parts += [f"{layers} layer{'s were' if layers > 1 else ' was'} not run"] if layers else []
        raise CommandError(f"{' and '.join(parts)}; {compared} tensors agree", details=document, lines=_first(lines))
    if not compared:
        reasons = [
            f"{_label(r.run)}: {o.operation} ({o.op_type}): {o.reason}" for r in replays for o in r.outcomes if o.reason
        ]
        raise CommandError("nothing was compared", details=document, lines=_first(reasons))


def _first(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], f"and {more} more; see them with --json"] if more > 0 else lines


def _as_predicate(reason: str) -> str:
    return reason if reason.startswith("does not") else f"failed: {reason}"


def _reason(layer: str, error: Exception) -> str:
    """The first line of an error; some begin with the layer's name."""
    return str(error).partition("\n")[0].removeprefix(f"{layer}: ")


def _document(replayed: Replay) -> dict[str, Any]:
    run = replayed.run
    return {
        "layer": run.graph.name,
        "source": str(run.source),
        "device": run.device,
        "round": run.round,
        "folder": None if run.folder is None else str(run.folder),
        "notes": _notes(replayed),
        "tensors": [_record(comparison) for comparison in sorted(replayed.comparisons, key=_badness)],
        "operations": [
            {
                "operation": o.operation,
                "type": o.op_type,
                "verdict": o.verdict,
                "reason": o.reason,
                "resembles": list(o.resembles),
            }
            for o in replayed.outcomes
        ],
    }


def _notes(replayed: Replay) -> list[str]:
    borrowed = f"the graph is that of {replayed.run.source.name}: the dump has none of this layer"
    return [*([borrowed] if replayed.run.borrowed else []), *replayed.notes]


def _badness(comparison: Comparison) -> tuple[bool, float]:
    """Sorts the worst first: tensors that differ, then by the largest difference relative to the tolerance."""
    return comparison.ok, -comparison.excess


def _record(comparison: Comparison) -> dict[str, Any]:
    return {
        "operation": comparison.operation,
        "tensor": comparison.tensor,
        "dtype": comparison.dtype,
        "shape": list(comparison.shape),
        "max_abs": comparison.max_abs,
        "max_rel": comparison.max_rel,
        "excess": comparison.excess,
        "measures": comparison.measures,
        "shares": comparison.shares,
        "computed": None if comparison.computed is None else vars(comparison.computed),
        "recorded": None if comparison.recorded is None else vars(comparison.recorded),
        "where": None if comparison.where is None else list(comparison.where),
        "here": comparison.here,
        "npu": comparison.npu,
        "cosine": comparison.cosine,
        "verdict": comparison.verdict,
        "note": comparison.note,
    }


# --- text ------------------------------------------------------------------------------------------------------------


def _show(replays: list[Replay], document: dict[str, Any]) -> None:
    is_short = len(replays) > _MOST_TABLES
    bad = [r for r in replays if any(o.verdict in ("DIFFERS", "FAILED") for o in r.outcomes)]
    if is_short:
        _show_summary(replays)
    for position, replayed in enumerate(bad[:_MOST_TABLES] if is_short else replays):
        if position or is_short:
            output.write_line()
        _show_layer(replayed)
    if is_short and len(bad) > _MOST_TABLES:
        output.write_line(f"\n{len(bad) - _MOST_TABLES} more layers differ; see one with --layer, or all with --json")
    for note in document["notes"]:
        output.write_line(f"note: {printable(note)}")
    for left in document["left_out"]:
        output.write_line(f"skipped: {printable(left)}")


def _show_summary(replays: list[Replay]) -> None:
    rows = []
    for replayed in replays:
        verdicts = [outcome.verdict for outcome in replayed.outcomes]
        worst = next((v for v in ("FAILED", "DIFFERS", "ok", "equal") if v in verdicts), "not compared")
        counts = [verdicts.count(verdict) for verdict in ("equal", "ok", "DIFFERS", "not compared", "FAILED")]
        rows.append([_label(replayed.run), *map(str, counts), worst])
    columns = ["layer", ">equal", ">ok", ">differ", ">not compared", ">failed", "verdict"]
    output.table(columns, rows, styles=_STYLES)


def _show_layer(replayed: Replay) -> None:
    output.heading(_label(replayed.run))
    rows = [_row(comparison) for comparison in sorted(replayed.comparisons, key=_badness)]
    rows += list(_missing(replayed.outcomes))
    columns = ["operation", "tensor", "type", "shape", ">max abs", ">max rel", ">cosine", "verdict", "note"]
    output.table(columns, rows, styles=_STYLES)
    for outcome in replayed.outcomes:
        if outcome.resembles:
            output.write_line(f"{printable(outcome.operation)} equals {printable('; or '.join(outcome.resembles))}")
    for note in _notes(replayed):
        output.write_line(f"note: {printable(note)}")


def _row(comparison: Comparison) -> list[str]:
    note = comparison.note
    if not comparison.ok and comparison.where is not None:
        place = (
            f"[{', '.join(map(str, comparison.where))}]: {comparison.here:.5g} here, {comparison.npu:.5g} on the NPU"
        )
        note = ", ".join(filter(None, (note, f"at {place}")))
    return [
        comparison.operation,
        comparison.tensor,
        comparison.dtype,
        f"[{', '.join(map(str, comparison.shape))}]",
        _number(comparison.max_abs),
        _number(comparison.max_rel),
        "-" if comparison.cosine is None else f"{comparison.cosine:.6f}",
        comparison.verdict,
        note,
    ]


def _missing(outcomes: tuple[Outcome, ...]) -> Iterator[list[str]]:
    """Rows for what is not compared."""
    for outcome in outcomes:
        if outcome.reason:
            verdict = "FAILED" if outcome.failed else "not compared"
            yield [outcome.operation, "", outcome.op_type, "", "", "", "", verdict, outcome.reason]


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"
