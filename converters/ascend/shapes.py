"""The shapes of results, as far as they follow from those of the inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor, shape_text


def place(tensor: Tensor, axis: int) -> int:
    """An axis from the front; as it is if the rank is not known, because ONNX's operators count from the end, too.

    Raises:
        Unsupported: The tensor has no such axis.
    """
    return axis if tensor.shape is None else tensor.axis(axis)


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


def broadcast_equal(shapes: Sequence[Shape]) -> Shape:
    """The common shape of all, as far as it is known.

    Raises:
        Unsupported: They differ.
    """
    result: list[int | None] = []
    for dims in zip(*shapes, strict=True):
        sizes = {d for d in dims if d is not None}
        if len(sizes) > 1:
            raise Unsupported(f"shapes {', '.join(map(shape_text, shapes))} do not fit together")
        result.append(sizes.pop() if sizes else None)
    return tuple(result)
