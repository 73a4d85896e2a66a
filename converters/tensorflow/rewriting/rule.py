"""The base class of rules, and the records of what they did."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from onnx import NodeProto

from onnx_sparse.converters.tensorflow.rewriting.graph import Graph


class Declined(Exception):  # noqa: N818 - a verdict on a node, not a failure of the program
    """The reason why a rule does not fire at a node that looks like its pattern."""


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


class Rule(ABC):
    """A pattern of nodes and its replacement. The class's docstring states both, and how far they are equal.

    Attributes:
        name: The rule's name in explanations.
        anchors: The possible types of the pattern's last node, from which the pattern is found.
    """

    name: ClassVar[str]
    anchors: ClassVar[Collection[str]]

    @abstractmethod
    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Replace the pattern that ends in a node.

        Returns:
            Whether it was replaced; False if the pattern is not there.

        Raises:
            Declined: If the pattern is there but a condition does not hold.
        """
