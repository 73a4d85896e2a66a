"""What `convert` reports about a conversion: nodes before and after, and the rewriting rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from onnx_sparse.converters.rewriting.explanation import Rewriting


class Declined(TypedDict):
    """A place where a rule met its pattern and was not applied, and why."""

    rule: str
    node: str
    reason: str


class Rules(TypedDict):
    """How often each rule was applied, and where one was not."""

    fired: Mapping[str, int]
    declined: Sequence[Declined]


class Explained(TypedDict, total=False):
    """The numbers of nodes before the rules, and what these did."""

    source_nodes: NotRequired[int]
    nodes_before_rules: int
    rules: Rules


class ConversionReport:
    """Receives a converter's explanation, and keeps it for the document and the terminal."""

    def __init__(self) -> None:
        self._explanation: Rewriting | None = None

    def __call__(self, explanation: Rewriting) -> None:
        """Keep an explanation; a converter calls this."""
        self._explanation = explanation

    def document(self) -> Explained:
        """The explanation for machines; empty where the converter gave none."""
        told = self._explanation
        if told is None:
            return {}
        declined: list[Declined] = [{"rule": a.rule, "node": a.node, "reason": a.reason} for a in told.declined]
        rules: Rules = {"fired": dict(told.fired), "declined": declined}
        explained: Explained = {"nodes_before_rules": told.nodes_before, "rules": rules}
        if isinstance(source_nodes := getattr(told, "source_nodes", None), int):
            return {"source_nodes": source_nodes, **explained}
        return explained
