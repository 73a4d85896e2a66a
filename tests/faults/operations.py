"""The operations that patterns are written in, and what is known of their inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

Array = np.ndarray[Any, Any]
#: The inputs of a pattern: their element types and ranks.
Specs = Sequence[tuple[str, int]]
#: Computes the outputs of a pattern with a road's operations.
Body = Callable[..., Sequence[Any]]


def named(same: str, **others: str) -> dict[str, str]:
    """The library's names of operations: of some the same, of the others another one."""
    return {name: name for name in same.split()} | others


class Named:
    """Operations that a library has under names of its own, with the same arguments.

    Attributes:
        names: The library's name of each operation.
        library: The library.
    """

    names: ClassVar[Mapping[str, str]]
    library: Any

    def __getattr__(self, operation: str) -> Any:
        if operation not in self.names:
            raise AttributeError(operation)
        return functools.reduce(getattr, self.names[operation].split("."), self.library)


class Numpy(Named):
    """The answers of integer operations, which OpenVINO's plugin computes in 32 bits or as floats."""

    names: ClassVar[Mapping[str, str]] = named("maximum minimum sign clip", divide="floor_divide")

    def __init__(self) -> None:
        self.library = np

    def relu(self, x: Array) -> Array:
        return np.maximum(x, 0)

    def reduce(self, kind: str, x: Array, axis: int, keep: bool) -> Array:
        options = {"dtype": x.dtype} if kind in ("sum", "prod") else {}
        return np.asarray(getattr(np, kind)(x, axis=axis, keepdims=keep, **options))

    def one_hot(self, ids: Array, depth: Array) -> Array:
        return (ids[:, None] == np.arange(depth)).astype(np.float32)

    def run(self, body: Body, inputs: Sequence[Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            return [*body(self, *inputs)]
