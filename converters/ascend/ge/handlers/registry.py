"""The registry of GE's operators and what a handler works with.

A handler is a function of an operator and an emitter that returns the operator's results in GE's order:

    @handles("Tile", to="Tile")
    def tile(op: Operator, emit: Emitter) -> Results: ...

A handler that cannot convert an operator raises `Unsupported`; the driver collects these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.ascend.ge.graph import Description
from onnx_sparse.converters.ascend.tensors import Tensor, Unsupported

Results = tuple[Tensor, ...]


@dataclass(frozen=True)
class Operator:
    """An operator as its handler sees it.

    Attributes:
        op_type: Its type.
        inputs: The tensors it reads; None is an optional input that is omitted.
        attributes: Its attributes.
        results: The graph's descriptions of its results.
        constants: The values of constants of the model, by name.
    """

    op_type: str
    inputs: tuple[Tensor | None, ...]
    attributes: Mapping[str, Any]
    results: tuple[Description, ...]
    constants: Mapping[str, np.ndarray[Any, Any]]

    def take(self, least: int, most: int | None = None) -> tuple[Tensor, ...]:
        """The inputs; their number must be from `least` to `most`, and none in the middle may be omitted."""
        given = list(self.inputs)
        while given and given[-1] is None:
            given.pop()
        if not least <= len(given) <= (least if most is None else most):
            raise Unsupported(f"it has {len(given)} inputs, {least} expected")
        found = tuple(tensor for tensor in given if tensor is not None)
        if len(found) < len(given):
            raise Unsupported("an optional input in the middle is omitted")
        return found

    def numbers(self, tensor: Tensor, what: str) -> list[Any]:
        """The elements of an input that must be a constant."""
        if tensor.name not in self.constants:
            raise Unsupported(f"{what} is not a constant")
        values: list[Any] = self.constants[tensor.name].reshape(-1).tolist()
        return values

    def whole_numbers(self, tensor: Tensor, what: str) -> list[int]:
        """The elements of an input that must be a constant of an integer type."""
        values = self.numbers(tensor, what)
        if not all(isinstance(value, int) for value in values):
            raise Unsupported(f"{what} is {tensor}; an integer type expected")
        return values

    def whole_number(self, tensor: Tensor, what: str) -> int:
        """The one element of an input that must be a constant of an integer type."""
        values = self.whole_numbers(tensor, what)
        if len(values) != 1:
            raise Unsupported(f"{what} is not a single number")
        return values[0]

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute that is a whole number."""
        value = self._number(name, default)
        if not isinstance(value, int):
            raise Unsupported(f"attribute {name} is {value}; a whole number expected")
        return value

    def real(self, name: str, default: float | None = None) -> float:
        """An attribute that is a number."""
        return float(self._number(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is true or false."""
        return bool(self._number(name, default))

    def integers(self, name: str) -> list[int]:
        """An attribute that is a list of whole numbers; a single number is a list of one, None an empty list."""
        value = self.attributes.get(name)
        items = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, int) for item in items):
            raise Unsupported(f"attribute {name} is not a list of whole numbers")
        return [int(item) for item in items]

    def _number(self, name: str, default: float | None) -> float:
        value = self.attributes.get(name)
        if value is None:
            if default is None:
                raise Unsupported(f"attribute {name} is missing")
            return default
        if not isinstance(value, int | float):
            raise Unsupported(f"attribute {name} is not a number")
        return value


HandlerFunction = Callable[[Operator, Emitter], Results]


@dataclass(frozen=True)
class Handler:
    """How one operator of GE is converted.

    Attributes:
        op_type: The operator.
        to: The ONNX operators that it becomes.
        convert: The function that converts it.
        notes: What is not supported, or assumed.
    """

    op_type: str
    to: str
    convert: HandlerFunction
    notes: str = ""


#: The handlers by operator.
HANDLERS: dict[str, Handler] = {}


def handles(*op_types: str, to: str, notes: str = "") -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function as the handler of operators; see `Handler` for the arguments."""

    def register(function: HandlerFunction) -> HandlerFunction:
        for op_type in op_types:
            if op_type in HANDLERS:
                raise ValueError(f"{op_type} has a handler already")
            HANDLERS[op_type] = Handler(op_type, to, function, notes)
        return function

    return register


def handles_each(targets: Mapping[str, str]) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function as the handler of operators by the ONNX operators that they become."""

    def register(function: HandlerFunction) -> HandlerFunction:
        for op_type, target in targets.items():
            handles(op_type, to=target)(function)
        return function

    return register
