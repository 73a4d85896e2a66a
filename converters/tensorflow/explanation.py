"""What a conversion reports about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx_sparse.converters.rewriting.explanation import Attempt, Rewriting
from onnx_sparse.converters.tensorflow.attributes import every_node

#: Nodes that compute nothing.
_NOT_COUNTED = ("Const", "Placeholder", "PlaceholderWithDefault", "Identity", "NoOp")


@dataclass(frozen=True)
class Derivation:
    """The outcome of the rules.

    Attributes:
        attempts: Where they fired, and where they did not and why.
        nodes: How many nodes that compute something were removed from the graph.
    """

    attempts: tuple[Attempt, ...] = ()
    nodes: int = 0


@dataclass(frozen=True, kw_only=True)
class Explanation(Rewriting):
    """How a model came about.

    Attributes:
        source_nodes: The nodes of TensorFlow's frozen graph that compute something.
    """

    source_nodes: int


def count_source_nodes(graph_def: Any) -> int:
    """How many nodes of a GraphDef and of its functions compute something."""
    return sum(map(computes, every_node(graph_def)))


def computes(node: Any) -> bool:
    """Whether a TensorFlow node computes something."""
    return node.op not in _NOT_COUNTED
