"""What handlers know about the conversion of the model that they are a part of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onnx_sparse.converters.errors import Unsupported, UnsupportedNodes
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.tensorflow.importing.values import Value
from onnx_sparse.converters.tensorflow.reading.model import Model
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Origin, Scope

#: How deep branches and loops may stand in each other.
MOST_BODIES = 30


@dataclass(frozen=True)
class Frame:
    """Where nodes are converted to: the graph, or the body of a branch or loop.

    Attributes:
        emit: Receives the nodes.
        depth: How many bodies it stands in.
    """

    emit: TensorFlowEmitter
    depth: int = 0

    def body(self) -> Frame:
        """A frame for a body within this one.

        Raises:
            Unsupported: It would stand in too many.
        """
        if self.depth >= MOST_BODIES:
            raise Unsupported(f"branches and loops stand in each other more than {MOST_BODIES} deep")
        return Frame(self.emit.body(), self.depth + 1)


class VariableReads(Protocol):
    """The values of a model's variables where nodes read them; see `states.VariableValues`."""

    def at(self, scope: Scope, node: NodeDef, handle: Any) -> Tensor:
        """The value that a node reads."""

    def constant(self, handle: Any) -> Tensor:
        """The value in the file."""

    def changed_by(self, resource: Origin) -> Any:
        """What changes a variable or table in each call of the model; None if nothing does."""


class Context(ABC):
    """The conversion of one model.

    Attributes:
        model: The model.
        frame: That of its graph.
        unsupported: The nodes that cannot be converted.
        variables: The values of variables, and which of them are states.
        tables: What fills the lookup tables, by name, and these; None if it has not been looked for.
        branches: The scopes of branches, by the scope and the name of the node that has them.
        live: Which variables of a loop anything needs, by the scope and the name of its node.
        loops: The variables after loops of TensorFlow 1, by the scope and the node of the condition.
    """

    model: Model
    frame: Frame
    unsupported: UnsupportedNodes
    variables: VariableReads
    tables: dict[Any, Any] | None
    branches: dict[tuple[int, str], list[Scope]]
    loops: dict[tuple[int, str], tuple[Value, ...]]
    live: dict[tuple[int, str], list[int]]

    @abstractmethod
    def convert(self, wanted: Sequence[Any]) -> None:
        """Convert the nodes of origins and those before them; what cannot be converted is recorded."""

    @abstractmethod
    def values(self, origins: Sequence[Any]) -> list[Value]:
        """The values of origins, which are converted if they are not yet.

        Raises:
            Unsupported: One of them cannot be converted, which has been recorded.
        """

    @abstractmethod
    def tensors(self, origins: Sequence[Any]) -> list[Tensor]:
        """The values of origins that are tensors.

        Raises:
            Unsupported: One of them is none, or cannot be converted.
        """

    @abstractmethod
    def computed(self, origin: Any, what: str) -> Array:
        """The value of a tensor that depends on constants only.

        Args:
            origin: Its origin.
            what: What it is, for the error.

        Raises:
            Unsupported: It depends on inputs, or cannot be computed.
        """

    @abstractmethod
    def attempt(self, origins: Sequence[Any]) -> list[Tensor] | None:
        """The values of origins that are tensors; None, and nothing is recorded, if one of them cannot be converted."""

    @abstractmethod
    def keep(self, scope: Scope) -> Scope:
        """Remember a scope that was made for a body; returns it."""

    @abstractmethod
    def read_by(self, scope: Scope, node: NodeDef) -> list[Any]:
        """The origins of what a node reads: its inputs, or those that its branches read."""
