"""cat and stack of tensors of several element types, or of nothing but empty ones."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

import ml_dtypes  # noqa: F401  # numpy then knows bfloat16
import numpy as np

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.torch.lazy_imports import require
from onnx_sparse.schemas.declaration import DType, element_type, numpy_dtype

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.cat.default", to="Concat")
def concatenate(node: Node, emit: TorchEmitter) -> Tensor:
    """Tensors one after the other along a dimension; empty vectors are none of them."""
    tensors = _of_one_type(node, emit)
    given = [one for one in tensors if one.shape != (0,)]
    if not given:
        node.disregard("dim")
        return tensors[0]
    return emit.op("Concat", *given, axis=given[0].axis(node.integer("dim")))


@handles("aten.stack.default", to="Unsqueeze, Concat")
def stack(node: Node, emit: TorchEmitter) -> Tensor:
    """Tensors one after the other along a new dimension."""
    tensors = _of_one_type(node, emit)
    dim, rank = node.integer("dim"), tensors[0].rank
    axis = emit.constant([dim if dim >= 0 else dim + rank + 1])
    return emit.op("Concat", *(emit.op("Unsqueeze", one, axis) for one in tensors), axis=int(dim % (rank + 1)))


def _of_one_type(node: Node, emit: TorchEmitter) -> list[Tensor]:
    tensors = [one for one in node.tensors("tensors") if one is not None]
    dtype = promoted(one.dtype for one in tensors)
    return [emit.cast(one, dtype) for one in tensors]


def promoted(dtypes: Iterable[DType]) -> DType:
    """The element type that torch gives to several together."""
    torch = require("torch")
    found = reduce(torch.promote_types, (getattr(torch, np.dtype(numpy_dtype(dtype)).name) for dtype in dtypes))
    return element_type(np.dtype(str(found).removeprefix("torch.")))
