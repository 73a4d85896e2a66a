"""The registry of handlers, and the call of an operator of torch as a handler sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing import reads
from onnx_sparse.converters.writing.reads import Attributes, Reads
from onnx_sparse.converters.writing.registry import Handler, Registry


@dataclass(frozen=True)
class TorchHandler(Handler):
    """How an overload of an operator is converted.

    Attributes:
        opt_in: Whether it is converted only where a user asks for it, because torch's own exporter is right, too.
    """

    opt_in: bool = False


#: The handlers by the names of overloads: `aten.index_add.default`.
HANDLERS: Registry[TorchHandler] = Registry(TorchHandler)
handles = HANDLERS.handles


class Arguments(Attributes[Any]):
    """The arguments of a call, by the names that they have in torch's schema.

    Args:
        given: The arguments; defaults are filled in.
        defaults: The defaults.
    """

    def __init__(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        super().__init__(given, "argument")
        self._defaults = defaults

    def says_nothing(self, name: str, value: Any) -> bool:
        """Whether it is the default, or not given."""
        return value is None or (name in self._defaults and value == self._defaults[name])


class Node(reads.Node):
    """A call of an operator.

    Args:
        arguments: Its arguments.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def parts(self) -> Iterable[Reads]:
        """See `Node`."""
        return (self._arguments,)

    def has(self, name: str) -> bool:
        """Whether the overload has an argument of this name."""
        return name in self._arguments

    def tensor(self, name: str) -> Tensor:
        """An argument that is a tensor.

        Raises:
            Unsupported: It is not given.
        """
        value = self.optional(name)
        if value is None:
            raise Unsupported(f"{name} is not given")
        return value

    def optional(self, name: str) -> Tensor | None:
        """An argument that is a tensor or not given."""
        value = self._arguments[name]
        if value is not None and not isinstance(value, Tensor):
            raise Unsupported(f"{name} is {value!r}; a tensor expected")
        return value

    def tensors(self, name: str) -> list[Tensor | None]:
        """An argument that is a list of tensors, some of which may be omitted."""
        return list(self._arguments[name])

    def numbers(self, name: str) -> list[Tensor | int]:
        """Numbers, which are tensors if torch knows them only when the model runs; none where they are not given."""
        return list(self._arguments[name] or ())

    def number(self, name: str) -> Tensor | float:
        """A number, which is a tensor if torch knows it only when the model runs."""
        value: Tensor | float = self._arguments[name]
        return value

    def optional_number(self, name: str, otherwise: float) -> Tensor | float:
        """A number, or another one where it is not given."""
        return otherwise if self._arguments[name] is None else self.number(name)

    def integer(self, name: str) -> int:
        """A number that torch knows.

        Raises:
            Unsupported: It is known only when the model runs.
        """
        value = self._arguments[name]
        if not isinstance(value, int):
            raise Unsupported(f"{name} is {value}; a constant integer expected")
        return value

    def optional_integer(self, name: str) -> int | None:
        """A number that torch knows, or that is not given."""
        return None if self._arguments[name] is None else self.integer(name)

    def flag(self, name: str) -> bool:
        """A bool; one that is not given is false."""
        return bool(self._arguments[name])

    def text(self, name: str) -> str:
        """A string."""
        return str(self._arguments[name])
