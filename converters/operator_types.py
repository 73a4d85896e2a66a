"""The element types and shapes of results, by the operators' own schemas: the domain's and ONNX's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from onnx import TensorProto
from onnx.defs import OpSchema, get_schema

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.schemas import Op
from onnx_sparse.schemas.declaration import DType, dtype_name
from onnx_sparse.schemas.validation import Dim, Dimensions, KernelError, bind_types

_VARIADIC = OpSchema.FormalParameterOption.Variadic


def bound_types(op: Op, inputs: Mapping[str, DType]) -> dict[str, DType]:
    """The element type of each type variable of an operator of the domain.

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


def domain_shapes(op: Op, inputs: Mapping[str, Tensor], attributes: Mapping[str, str]) -> list[Shape | None]:
    """The shapes of the results of an operator of the domain, as far as they are known.

    Args:
        op: The operator.
        inputs: The given inputs by name.
        attributes: The values of all attributes.

    Raises:
        Unsupported: The inputs' ranks, dimensions or constant sizes violate the semantics.
    """
    shapes: dict[str, list[Dim]] = {n: list(tensor.shape) for n, tensor in inputs.items() if tensor.shape is not None}
    values: dict[str, Array] = {}
    for declared in op.inputs:
        given = inputs.get(declared.name)
        if given is None and declared.optional and not declared.shape:
            values[declared.name] = np.array(declared.sentinel)
        if given is not None and given.value is not None and declared.name in op.inputs_that_decide_sizes:
            values[declared.name] = given.value
    try:
        dimensions = Dimensions(op, shapes, values)
        resolved = [dimensions.resolve(output.shape_with(attributes)) for output in op.outputs]
    except KernelError as error:
        raise Unsupported(f"{op.name}: {error}") from error
    return [None if dims is None else tuple(d if isinstance(d, int) else None for d in dims) for dims in resolved]


def result_type(op_type: str, opset: int, inputs: Sequence[DType | None], attributes: Mapping[str, Any]) -> DType:
    """The element type of the first result of a standard operator.

    Args:
        op_type: The operator.
        opset: The opset of the model.
        inputs: The element types of its inputs; None is an input that is omitted.
        attributes: Its attributes, of which `to` or `value` may say the type.
    """
    schema = _declared(op_type, opset)
    output = schema.outputs[0]
    types = _allowed(schema, output.type_str)
    if len(types) == 1:
        return _number(next(iter(types)))
    for (variable, _, _), dtype in zip(_parameters(op_type, opset, len(inputs)), inputs, strict=True):
        if variable == output.type_str and dtype is not None:
            return dtype
    return int(attributes["value"].data_type if "value" in attributes else attributes["to"])


def check_types(op_type: str, opset: int, inputs: Sequence[Tensor | None]) -> None:
    """Refuse inputs that a standard operator does not take, at conversion and not when a session loads the model.

    Raises:
        Unsupported: The operator does not take the type of an input, or two inputs that must have one type differ.
    """
    bound: dict[str, Tensor] = {}
    for tensor, (name, allowed, same) in zip(inputs, _parameters(op_type, opset, len(inputs)), strict=True):
        if tensor is None or not tensor.dtype:  # omitted, or the result of an operation that was kept unconverted
            continue
        if f"tensor({dtype_name(tensor.dtype)})" not in allowed:
            raise Unsupported(f"{op_type} does not take {tensor}")
        if same and bound.setdefault(name, tensor).dtype != tensor.dtype:
            raise Unsupported(f"{op_type} takes {bound[name]} and {tensor} only with one element type")


@lru_cache(maxsize=512)
def _declared(op_type: str, opset: int) -> OpSchema:
    return get_schema(op_type, opset)


@lru_cache(maxsize=512)
def _parameters(op_type: str, opset: int, count: int) -> tuple[tuple[str, frozenset[str], bool], ...]:
    """For each input: its type variable, the allowed types, and whether all inputs of that variable have one type."""
    schema = _declared(op_type, opset)
    declared = schema.inputs
    places = [declared[min(position, len(declared) - 1)] for position in range(count)]
    return tuple((p.type_str, _allowed(schema, p.type_str), p.option != _VARIADIC or p.is_homogeneous) for p in places)


def _allowed(schema: OpSchema, type_str: str) -> frozenset[str]:
    """The types that a type variable may be, or the one type. onnx 1.20 has no binding of a parameter's `types`."""
    variables = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    return frozenset(variables.get(type_str, (type_str,)))


@lru_cache(maxsize=64)
def _number(text: str) -> DType:
    return int(TensorProto.DataType.Value(text.removeprefix("tensor(").removesuffix(")").upper()))
