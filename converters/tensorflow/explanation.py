"""What a conversion reports about itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto

from onnx_sparse.converters.graphs import graphs
from onnx_sparse.converters.tensorflow.attributes import every_node

#: Nodes that compute nothing.
_NOT_COUNTED = ("Const", "Placeholder", "PlaceholderWithDefault", "Identity", "NoOp")


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


@dataclass(frozen=True)
class Derivation:
    """The outcome of the rules.

    Attributes:
        attempts: Where they fired, and where they did not and why.
        nodes: How many nodes that compute something were removed from the graph.
    """

    attempts: tuple[Attempt, ...] = ()
    nodes: int = 0


@dataclass(frozen=True)
class Explanation:
    """How a model came about.

    Attributes:
        source_nodes: The nodes of TensorFlow's frozen graph that compute something.
        nodes_before: The ONNX nodes before the rules were applied.
        nodes: The ONNX nodes of the model.
        attempts: The rules that fired, in order, then those that met their pattern and did not fire.
    """

    source_nodes: int
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


def count_source_nodes(graph_def: Any) -> int:
    """How many nodes of a GraphDef and of its functions compute something."""
    return sum(map(computes, every_node(graph_def)))


def computes(node: Any) -> bool:
    """Whether a TensorFlow node computes something."""
    return node.op not in _NOT_COUNTED


def count_nodes(model: ModelProto) -> int:
    """The number of nodes in a model, including those in control-flow bodies."""
    return sum(len(graph.node) for graph in graphs(model.graph))
