"""The element types of ONNX's operators: others are refused at conversion, not when a session loads the model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from onnx.defs import OpSchema, get_schema

from onnx_sparse.converters.ascend.tensors import Tensor, Unsupported
from onnx_sparse.schemas.declaration import dtype_name


def check_types(op_type: str, inputs: Sequence[Tensor], opset: int) -> None:
    """Refuse inputs that a standard operator does not take.

    Raises:
        Unsupported: The operator does not take the type of an input, or two inputs that must have one type differ.
    """
    bound: dict[str, Tensor] = {}
    for tensor, (name, allowed, same) in zip(inputs, _parameters(op_type, opset, len(inputs)), strict=True):
        if not tensor.dtype:  # the result of an operation that was kept unconverted
            continue
        if f"tensor({dtype_name(tensor.dtype)})" not in allowed:
            raise Unsupported(f"{op_type} does not take {tensor}")
        if same and bound.setdefault(name, tensor).dtype != tensor.dtype:
            raise Unsupported(f"{op_type} takes {bound[name]} and {tensor} only with one element type")


@lru_cache(maxsize=512)
def _parameters(op_type: str, opset: int, count: int) -> tuple[tuple[str, frozenset[str], bool], ...]:
    """For each input: its type variable, the allowed types, and whether all inputs of that variable have one type."""
    declared = get_schema(op_type, opset).inputs
    places = [declared[min(position, len(declared) - 1)] for position in range(count)]
    variadic = OpSchema.FormalParameterOption.Variadic
    return tuple((p.type_str, frozenset(p.types), p.option != variadic or p.is_homogeneous) for p in places)
