"""What a rewriting rule is, and its attempt at one node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from onnx_sparse.converters.rewriting.explanation import Attempt

GraphType = TypeVar("GraphType")
#: What a pattern binds, by name; `check` and `rewrite` receive it as arguments.
Match = Mapping[str, Any]


class Rule(ABC, Generic[GraphType]):
    """A pattern of nodes and its replacement. The class's docstring states both, and how far they are equal.

    Attributes:
        name: The rule's name in explanations.
        anchors: The possible types of the pattern's last node, from which the pattern is found.
    """

    name: ClassVar[str]
    anchors: ClassVar[Collection[str]]

    @abstractmethod
    def pattern(self, graph: GraphType, node: Any) -> Match | None:
        """What the pattern that ends in a node binds; None if the pattern is not there."""

    def check(self, graph: GraphType, node: Any, *args: Any, **match: Any) -> str | None:
        """The reason why the pattern must stay as it is; None if it can be replaced."""
        return None

    @abstractmethod
    def rewrite(self, graph: GraphType, node: Any, *args: Any, **match: Any) -> None:
        """Replace the pattern."""

    def attempt(self, graph: GraphType, node: Any) -> Attempt | None:
        """Replace the pattern that ends in a node, if it can be replaced; None if it is not there."""
        match = self.pattern(graph, node)
        if match is None:
            return None
        reason = self.check(graph, node, **match)
        if reason is None:
            self.rewrite(graph, node, **match)
        return Attempt(self.name, node.name, reason is None, reason or "")
