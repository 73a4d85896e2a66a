"""The element types of the domain's nodes that converters write, by the contract's own rule."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.schemas import Op
from onnx_sparse.schemas.declaration import DType
from onnx_sparse.schemas.validation import KernelError, bind_types


def bound_types(op: Op, inputs: Mapping[str, DType]) -> dict[str, DType]:
    """The element type of each of the operator's type variables.

    Args:
        op: The operator.
        inputs: The element types of the given inputs, by name.

    Raises:
        Unsupported: The operator does not take an input's element type, or two inputs that must have the same type
            differ.
    """
    try:
        return bind_types(op, inputs)
    except KernelError as error:
        raise Unsupported(f"{op.name}: {error}") from error
