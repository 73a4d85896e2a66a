"""A tensor of the graph under construction. Its methods raise `Unsupported` for a property that is not known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from onnx_sparse.converters.errors import Unsupported as Unsupported
from onnx_sparse.schemas.declaration import DType, dtype_name

#: Dimensions; None is an unknown one.
Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor: its name, its element type (a TensorProto.DataType), its shape (None: the rank is not known)."""

    name: str
    dtype: DType
    shape: Shape | None = None

    def __str__(self) -> str:
        return f"{self.name} {dtype_name(self.dtype)}{shape_text(self.shape)}"

    @property
    def rank(self) -> int:
        """The rank.

        Raises:
            Unsupported: It is not known.
        """
        if self.shape is None:
            raise Unsupported(f"the shape of {self.name} is not known; give it with --input-spec or --tensors")
        return len(self.shape)

    @property
    def dims(self) -> tuple[int, ...]:
        """The whole shape.

        Raises:
            Unsupported: A dimension is not known.
        """
        if self.shape is None or None in self.shape:
            raise Unsupported(f"needs the whole shape of {self.name}; give it with --input-spec or --tensors")
        return tuple(d for d in self.shape if d is not None)

    def axis(self, axis: int) -> int:
        """A non-negative axis for one that may be negative.

        Raises:
            Unsupported: The tensor has no such axis.
        """
        if not -self.rank <= axis < self.rank:
            raise Unsupported(f"axis {axis} is out of range for {self}")
        return axis % self.rank

    def renamed(self, name: str) -> Tensor:
        """The same tensor under another name."""
        return replace(self, name=name)


@dataclass(frozen=True)
class Given:
    """What the user gives for an input: its element type and, as far as known, its shape."""

    dtype: DType
    shape: Shape | None = None


def shape_text(shape: Shape | None) -> str:
    """A shape for messages: `[2, ?]`."""
    return "[...]" if shape is None else f"[{', '.join('?' if d is None else str(d) for d in shape)}]"


def element_count(shape: Shape | None) -> int | None:
    """The number of elements of a shape; None if it is not known."""
    return None if shape is None or None in shape else math.prod(d for d in shape if d is not None)


def broadcast(*shapes: Shape | None) -> Shape | None:
    """The shape to which numpy broadcasts all of the shapes.

    Raises:
        Unsupported: They do not broadcast.
    """
    if any(shape is None for shape in shapes):
        return None
    known = [shape for shape in shapes if shape is not None]
    result: list[int | None] = []
    for position in range(1, max(map(len, known), default=0) + 1):
        dims = {shape[-position] for shape in known if len(shape) >= position} - {1}
        sizes = dims - {None}
        if len(sizes) > 1:
            raise Unsupported(f"shapes {', '.join(map(shape_text, known))} do not broadcast")
        result.append(sizes.pop() if sizes else (None if dims else 1))
    return tuple(reversed(result))
