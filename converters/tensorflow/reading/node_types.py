"""What TensorFlow's messages of nodes look like to a type checker: their classes are made when they are imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class AttrValue(Protocol):
    """The value of an attribute; the fields that it does not have are 0 or empty."""

    s: bytes
    i: int
    f: float
    b: bool
    type: int
    shape: Any
    tensor: Any
    list: Any
    func: Any

    def WhichOneof(self, oneof: str) -> str | None:  # noqa: N802
        """The name of the field that it has."""


class NodeDef(Protocol):
    """A node of a graph."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def op(self) -> str:
        """Its operator."""

    @property
    def input(self) -> Sequence[str]:
        """The tensors that it reads, and after them the nodes that it runs after."""

    @property
    def attr(self) -> Mapping[str, AttrValue]:
        """Its attributes; to read one that is missing makes it, empty."""
