"""What `convert` prints: rules, verification and smaller tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx_sparse.cli import output
from onnx_sparse.commands.conversion.smaller_tables import SmallerTables
from onnx_sparse.commands.conversion.source import ConvertDocument
from onnx_sparse.commands.sources.verification import Verified, distance
from onnx_sparse.models.files.load_and_save import size_text

_STYLES = {"ok": "green", "DIFFERS": "bold red", "NOT COMPARED": "bold red", "REFUSED": "bold red"}


def nodes_line(document: ConvertDocument) -> str:
    """The number of nodes, and how many they were made from."""
    if "nodes_before_rules" not in document:
        return f"{document['nodes']}"
    before = f"{document['nodes_before_rules']} before the rules"
    if "source_nodes" in document:
        before = f"{document['source_nodes']} in TensorFlow, {before}"
    return f"{document['nodes']} (from {before})"


def rules_line(document: ConvertDocument) -> str:
    """The rules that fired, in one line; empty where there are none."""
    fired = document.get("rules", {}).get("fired", {})
    return ", ".join(f"{rule} x{count}" if count > 1 else rule for rule, count in fired.items())


def show_rules(document: ConvertDocument) -> None:
    """Print which rules fired, and where and why a rule that found its pattern did not fire."""
    rules = document.get("rules")
    if rules is None:
        return
    if rules["fired"]:
        output.table(["rule", ">applied"], [[rule, count] for rule, count in rules["fired"].items()])
    else:
        output.write_line("no rule was applied")
    output.write_line()
    if rules["declined"]:
        rows = [[entry["rule"], entry["node"], entry["reason"]] for entry in rules["declined"]]
        output.table(["rule", "not applied at", "because"], rows)
        output.write_line()


def show_verification(records: Sequence[Verified]) -> None:
    """Print how far apart the two models' answers are, output by output."""
    rows = [
        [
            record["output"],
            record["dtype"],
            f"[{', '.join(map(str, record['shape']))}]",
            distance(record["max_abs"]),
            distance(record["tolerance"]),
            record["batches_with_rows"],
            record["status"] if record["ok"] else record["verdict"].upper(),
            record["worst"],
            "; ".join(filter(None, (record["note"], _explained(record)))),
        ]
        for record in records
    ]
    columns = [
        "output",
        "type",
        "shape",
        ">max abs",
        ">allowed",
        ">batches with rows",
        "verdict",
        "worst batch",
        "note",
    ]
    output.table(columns, rows, styles=_STYLES)


def show_inputs(lines: Mapping[str, str]) -> None:
    """Print what each input was taken for when inputs were made for it."""
    if lines:
        output.table(["input", "taken for"], [[name, line] for name, line in lines.items()], styles=_STYLES)


def _explained(record: Verified) -> str:
    count = record["explained"]
    return f"{count} element{'s' * (count > 1)} not counted for that" if count else ""


def show_tables(smaller: SmallerTables) -> None:
    """Print the sizes and distances."""

    if not smaller.changes:
        output.write_line("  tables    none of 64 KiB that only lookups read")
        return
    rows = [
        [c.name, f"[{', '.join(map(str, c.shape))}]", c.format, size_text(c.before), size_text(c.after)]
        for c in smaller.changes
    ]
    output.write_line()
    output.table(["table", "shape", "is now", ">bytes before", ">bytes now"], rows)
    if smaller.distances:
        output.write_line()
        distances = [smaller.distance(record) for record in smaller.distances]
        output.table(
            ["output", ">max abs distance", ">max rel", ">rms"],
            [[d["output"], *(distance(d[measure]) for measure in ("max_abs", "max_rel", "rms"))] for d in distances],
        )
