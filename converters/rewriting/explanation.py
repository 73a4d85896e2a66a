"""What rewriting reports about itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from onnx import ModelProto

from onnx_sparse.models.graphs import graphs


@dataclass(frozen=True)
class Attempt:
    """The outcome of a rule at a node that looked like its pattern.

    Attributes:
        rule: The rule's name.
        node: The name of the node.
        fired: Whether the rule replaced it.
        reason: Why it did not fire; empty if it did.
    """

    rule: str
    node: str
    fired: bool
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.rule} at {self.node}" + ("" if self.fired else f": {self.reason}")


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """What the rules did to a model.

    Attributes:
        nodes_before: The ONNX nodes before the rules were applied.
        nodes: The ONNX nodes of the model.
        attempts: The rules that fired, in order, then those that met their pattern and did not fire.
    """

    nodes_before: int
    nodes: int
    attempts: tuple[Attempt, ...]

    @property
    def fired(self) -> Mapping[str, int]:
        """How often each rule fired."""
        return Counter(attempt.rule for attempt in self.attempts if attempt.fired)

    @property
    def declined(self) -> tuple[Attempt, ...]:
        """Where a rule met its pattern and did not fire."""
        return tuple(attempt for attempt in self.attempts if not attempt.fired)


def count_nodes(model: ModelProto) -> int:
    """The number of nodes in a model, including those in control-flow bodies."""
    return sum(len(graph.node) for graph in graphs(model.graph))
