"""A tensor of the graph under construction, as every handler sees it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnx_sparse.converters.errors import UnknownShape, Unsupported
from onnx_sparse.schemas.declaration import DType, dtype_name

Array = np.ndarray[Any, Any]
#: Dimensions; None is an unknown one.
Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor: its name, its element type (a TensorProto.DataType), its shape (None: the rank is not known).

    A constant also has its value.
    """

    name: str
    dtype: DType
    shape: Shape | None = None
    value: Array | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name} {dtype_name(self.dtype)}{shape_text(self.shape)}"

    @property
    def rank(self) -> int:
        """The rank.

        Raises:
            UnknownShape: It is not known.
        """
        if self.shape is None:
            raise UnknownShape(f"the rank of {self.name} is not known")
        return len(self.shape)

    @property
    def dims(self) -> tuple[int, ...]:
        """The whole shape.

        Raises:
            UnknownShape: A dimension is not known.
        """
        if self.shape is None or None in self.shape:
            raise UnknownShape(f"the whole shape of {self.name} must be known")
        return tuple(d for d in self.shape if d is not None)

    def dim(self, axis: int) -> int | None:
        """The size of an axis; None if it is not known.

        Raises:
            Unsupported: The tensor has no such axis.
        """
        return None if self.shape is None else self.shape[self.axis(axis)]

    def axis(self, axis: int) -> int:
        """A non-negative axis for one that may be negative.

        Raises:
            Unsupported: The tensor has no such axis.
        """
        if not -self.rank <= axis < self.rank:
            raise Unsupported(f"axis {axis} is out of range for {self}")
        return axis % self.rank

    def constant(self, what: str) -> Array:
        """The value of a constant; `what` says in the error which input it is.

        Raises:
            Unsupported: It is not a constant.
        """
        if self.value is None:
            raise Unsupported(f"{what} is not a constant")
        return self.value

    def integers(self, what: str) -> list[int]:
        """The elements of a constant of an integer type.

        Raises:
            Unsupported: It is not such a constant.
        """
        value = self.constant(what)
        if value.dtype.kind not in "iu":
            raise Unsupported(f"{what} is {self}; an integer type expected")
        return [int(element) for element in value.ravel()]

    def integer(self, what: str) -> int:
        """The one element of a constant of an integer type.

        Raises:
            Unsupported: It is not such a constant.
        """
        values = self.integers(what)
        if len(values) != 1:
            raise Unsupported(f"{what} is not a single number")
        return values[0]

    def renamed(self, name: str) -> Tensor:
        """The same tensor under another name."""
        return replace(self, name=name)


def shape_text(shape: Shape | None) -> str:
    """A shape for messages: `[2, ?]`."""
    return "[...]" if shape is None else f"[{', '.join('?' if d is None else str(d) for d in shape)}]"
