"""Inputs that are sparse matrices or nested tensors, as the parts that torch.export knows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch

from onnx_sparse.converters.torch.jagged_tensors import JaggedTensor
from onnx_sparse.converters.torch.sparse_matrices import SparseMatrix


def in_parts(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """The arguments with stand-ins for sparse and nested tensors, and the shapes with those of their parts.

    The number of elements is dynamic; so is the number of rows of a nested tensor and of a matrix in CSR form.
    """
    if not any(map(_is_composite, (*args, *kwargs.values()))):
        return args, kwargs, dynamic_shapes
    _register()
    names = list(inspect.signature(model.forward).bind(*args, **kwargs).arguments)
    given = dict(zip(names, args, strict=False)) | kwargs
    composite = {name: stand_in(value) for name, value in given.items() if _is_composite(value)}
    if dynamic_shapes is None:
        shapes: dict[str, Any] = dict.fromkeys(given)
    elif isinstance(dynamic_shapes, Mapping):
        shapes = {name: dynamic_shapes.get(name) for name in given}
    else:
        shapes = dict(zip(given, dynamic_shapes, strict=False))
    many = {0: torch.export.Dim.DYNAMIC}
    for name, value in composite.items():
        shapes[name] = [many] * len(torch.utils._pytree.tree_leaves(value))
    replaced = [composite.get(name, value) for name, value in list(given.items())[: len(args)]]
    return tuple(replaced), {name: composite.get(name, value) for name, value in kwargs.items()}, shapes


def stand_in(value: torch.Tensor) -> Any:
    """The stand-in of a sparse or nested tensor."""
    if value.is_nested:
        return JaggedTensor.of(value)
    if value.layout == torch.sparse_coo:
        rows, columns = value._indices()
        return SparseMatrix(rows, columns, value._values(), value.shape, False, value.is_coalesced())
    return SparseMatrix.of(value)


def _is_composite(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_nested or value.layout != torch.strided)


@cache
def _register() -> None:
    """Tell torch.export of the parts of stand-ins."""
    pytree = torch.utils._pytree

    def context(matrix: SparseMatrix) -> tuple[Any, ...]:
        rows = None if matrix.compressed else matrix.shape[0]  # the parts of a matrix in CSR form tell
        return rows, matrix.shape[1], matrix.compressed, matrix.coalesced

    def matrix(parts: Any, known: Any) -> SparseMatrix:
        rows, columns, elements = parts
        count, width, compressed, coalesced = known
        if count is None and isinstance(rows, torch.Tensor):
            count = rows.shape[0] - 1
        return SparseMatrix(rows, columns, elements, (count, width), compressed, coalesced)

    def keyed(matrix: SparseMatrix) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        parts = [(pytree.GetAttrKey(key), getattr(matrix, key)) for key in ("rows", "columns", "elements")]
        return parts, context(matrix)

    pytree.register_pytree_node(
        SparseMatrix,
        lambda m: ([m.rows, m.columns, m.elements], context(m)),
        matrix,
        serialized_type_name="onnx_sparse.SparseMatrix",
        flatten_with_keys_fn=keyed,
    )
    pytree.register_pytree_node(
        JaggedTensor,
        lambda t: ([t.elements, t.starts], t.longest),
        lambda parts, longest: JaggedTensor(parts[0], parts[1], longest),
        serialized_type_name="onnx_sparse.JaggedTensor",
        flatten_with_keys_fn=lambda t: (
            [(pytree.GetAttrKey("values"), t.elements), (pytree.GetAttrKey("offsets"), t.starts)],
            t.longest,
        ),
    )
