"""What `convert` reports about a conversion: nodes before and after, and the rewriting rules."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from onnx_sparse.cli import output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --explain."""
    parser.add_argument(
        "--explain",
        action="store_true",
        help="list the rules and guards that replaced nodes, and where and why one did not apply",
    )


def check(origin: str, arguments: argparse.Namespace) -> None:
    """Refuse --explain for sources that are not rewritten.

    Raises:
        UsageError: The source has no rules.
    """
    if arguments.explain and origin == "onnx" and not arguments.fuse:
        raise output.UsageError("--explain of an ONNX file is for --fuse")


class ConversionReport:
    """Receives a converter's explanation, and keeps it for the document and the terminal."""

    def __init__(self) -> None:
        self._explanation: Any = None

    def __call__(self, explanation: Any) -> None:
        """Keep an explanation; a converter calls this."""
        self._explanation = explanation

    def document(self) -> dict[str, Any]:
        """The explanation for machines; empty where the converter gave none."""
        told = self._explanation
        if told is None:
            return {}
        declined = [{"rule": a.rule, "node": a.node, "reason": a.reason} for a in told.declined]
        rules = {"fired": dict(told.fired), "declined": declined}
        source = {"source_nodes": told.source_nodes} if hasattr(told, "source_nodes") else {}
        return {**source, "nodes_before_rules": told.nodes_before, "rules": rules}


def nodes_line(document: Mapping[str, Any]) -> str:
    """The number of nodes, and how many they were made from."""
    if "nodes_before_rules" not in document:
        return f"{document['nodes']}"
    before = f"{document['nodes_before_rules']} before the rules"
    if "source_nodes" in document:
        before = f"{document['source_nodes']} in TensorFlow, {before}"
    return f"{document['nodes']} (from {before})"


def rules_line(document: Mapping[str, Any]) -> str:
    """The rules that fired, in one line; empty where there are none."""
    fired = document.get("rules", {}).get("fired", {})
    return ", ".join(f"{rule} x{count}" if count > 1 else rule for rule, count in fired.items())


def show(document: Mapping[str, Any]) -> None:
    """Print which rules fired, and where and why a rule that found its pattern did not fire."""
    rules = document.get("rules")
    if rules is None:
        return
    if rules["fired"]:
        output.table(["rule", ">fired"], [[rule, count] for rule, count in rules["fired"].items()])
    else:
        output.write_line("no rule fired")
    output.write_line()
    if rules["declined"]:
        rows = [[entry["rule"], entry["node"], entry["reason"]] for entry in rules["declined"]]
        output.table(["rule", "did not fire at", "because"], rows)
        output.write_line()
