"""What neither the model nor its source states about inputs: guessed first, solved for when it does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from onnx_sparse.converters.verification.dataflow import Origin

#: A dimension of an input (the name and the axis); in an input that holds a dense shape, an element of that shape.
Axis = tuple[str, int]

#: The rows of the batch, which many inputs share.
ROWS: Axis = ("", 0)

#: A number, or the dimension that has the same size.
Size = int | Axis


@dataclass(frozen=True)
class Layout:
    """What is known about the sizes of inputs beyond the model's own shapes.

    Attributes:
        sizes: The sizes of dimensions that the model leaves open.
        bounds: Ids are at least 0 and below these.
        ranges: Between which numbers others are.
        distinct: Whether other dimensions have a size of their own each, so that an error that names a size tells which
            dimension it means.
    """

    sizes: Mapping[Axis, Size] = field(default_factory=dict)
    bounds: Mapping[str, Size] = field(default_factory=dict)
    ranges: Mapping[Origin, tuple[float, float]] = field(default_factory=dict)
    distinct: bool = False

    def with_size(self, axis: Axis, size: Size) -> Layout:
        """The layout with one more size."""
        return replace(self, sizes={**self.sizes, axis: size})

    def with_bound(self, name: str, bound: Size) -> Layout:
        """The layout with one more bound."""
        return replace(self, bounds={**self.bounds, name: bound})

    def with_range(self, origin: Origin, numbers: tuple[float, float]) -> Layout:
        """The layout with one more range."""
        return replace(self, ranges={**self.ranges, origin: numbers})

    def ends_at(self, axis: Axis) -> Axis | int:
        """The number or the free dimension that a dimension's size is taken from."""
        size: Size = axis
        while not isinstance(size, int) and size in self.sizes:
            size = self.sizes[size]
        return size


#: Nothing is known.
GUESSED = Layout()
