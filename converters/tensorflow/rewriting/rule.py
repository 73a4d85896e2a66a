"""What a rule is, and what it tells about itself."""

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
    """What became of a rule at a node that looked like its pattern.

    Attributes:
        rule: The rule's name.
        node: The name of the node.
        fired: Whether the rule replaced it.
        reason: Why not; empty when it did.
    """

    rule: str
    node: str
    fired: bool
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.rule} at {self.node}" + ("" if self.fired else f": {self.reason}")


class Rule(ABC):
    """A pattern of nodes and what to put in its place. The class's docstring says both, and what is equal.

    Attributes:
        name: The rule's name in explanations.
        anchors: The types of the node that the pattern is found from: its last one.
    """

    name: ClassVar[str]
    anchors: ClassVar[Collection[str]]

    @abstractmethod
    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Replace the pattern that ends in a node.

        Returns:
            Whether it did; False where the pattern is not there.

        Raises:
            Declined: If the pattern is there, but a condition does not hold.
        """
