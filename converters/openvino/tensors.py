"""A tensor of the graph under construction. Its methods raise `Unsupported` for a property that is not known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnx_sparse.converters.errors import Unsupported as Unsupported
from onnx_sparse.schemas.declaration import DType

Array = np.ndarray[Any, Any]
#: Dimensions; None is an unknown one.
Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor: its name, element type (a TensorProto.DataType), shape (None: the rank is not known).

    A constant also has its value.
    """

    name: str
    dtype: DType
    shape: Shape | None = None
    value: Array | None = field(default=None, compare=False, repr=False)

    def rank(self, what: str) -> int:
        """The rank; `what` names the tensor in the error.

        Raises:
            Unsupported: The rank is not known.
        """
        if self.shape is None:
            raise Unsupported(f"the rank of {what} is not known")
        return len(self.shape)

    def dims(self, what: str) -> tuple[int, ...]:
        """The whole shape.

        Raises:
            Unsupported: A dimension is not known.
        """
        self.rank(what)
        if any(d is None for d in self.shape or ()):
            raise Unsupported(f"not all dimensions of {what} are known")
        return tuple(d for d in self.shape or () if d is not None)

    def constant(self, what: str) -> Array:
        """The value of a constant.

        Raises:
            Unsupported: It is not a constant.
        """
        if self.value is None:
            raise Unsupported(f"{what} is not a constant")
        return self.value

    def renamed(self, name: str) -> Tensor:
        """The same tensor under another name."""
        return replace(self, name=name)
