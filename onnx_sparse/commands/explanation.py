"""What `convert` reports about a conversion: nodes before and after, and the rewriting rules."""

from __future__ import annotations

from typing import Any


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
