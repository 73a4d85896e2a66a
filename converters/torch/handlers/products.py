"""addmm, addmv, addbmm, baddbmm and addr: products of matrices and vectors, which are added to what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.schemas.declaration import FLOATS

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.addmm.default", to="Gemm, or MatMul and Add")
def add_matrices(node: Node, emit: TorchEmitter) -> Tensor:
    """beta * self + alpha * mat1 @ mat2; the factors may be sizes."""
    start, one, other = (node.tensor(name) for name in ("self", "mat1", "mat2"))
    beta, alpha = node.number("beta"), node.number("alpha")
    may_round = start.dtype in FLOATS and start.dtype != TensorProto.DOUBLE
    if (
        not isinstance(beta, Tensor)
        and not isinstance(alpha, Tensor)
        and (may_round or (start.dtype == TensorProto.DOUBLE and _are_floats(alpha, beta)))
    ):
        added = start if beta else None  # 0 times infinity is not added
        return emit.op("Gemm", one, other, added, alpha=float(alpha), beta=float(beta))
    return _added(node, emit, emit.op("MatMul", one, other))


@handles("aten.addmv.default", to="MatMul, Add")
def add_vector(node: Node, emit: TorchEmitter) -> Tensor:
    """beta * self + alpha * mat @ vec."""
    column = emit.op("Unsqueeze", node.tensor("vec"), emit.constant([1]))
    product = emit.op("MatMul", node.tensor("mat"), column)
    return _added(node, emit, emit.op("Squeeze", product, emit.constant([1])))


@handles("aten.addbmm.default", to="MatMul, ReduceSum, Add")
def add_batch(node: Node, emit: TorchEmitter) -> Tensor:
    """beta * self + alpha * the sum of batch1 @ batch2."""
    product = emit.op("MatMul", node.tensor("batch1"), node.tensor("batch2"))
    return _added(node, emit, emit.op("ReduceSum", product, emit.constant([0]), keepdims=0))


@handles("aten.baddbmm.default", to="MatMul, Add")
def add_each_of_batch(node: Node, emit: TorchEmitter) -> Tensor:
    """beta * self + alpha * batch1 @ batch2."""
    return _added(node, emit, emit.op("MatMul", node.tensor("batch1"), node.tensor("batch2")))


@handles("aten.addr.default", to="Mul, Add")
def add_outer(node: Node, emit: TorchEmitter) -> Tensor:
    """beta * self + alpha * the outer product of vec1 and vec2."""
    column = emit.op("Unsqueeze", node.tensor("vec1"), emit.constant([1]))
    return _added(node, emit, emit.op("Mul", column, node.tensor("vec2")))


def _added(node: Node, emit: TorchEmitter, product: Tensor) -> Tensor:
    start, beta = node.tensor("self"), node.number("beta")
    product = _times(emit, node.number("alpha"), product)
    if not isinstance(beta, Tensor) and beta == 0:  # 0 times infinity is not added
        return product
    return emit.op("Add", _times(emit, beta, start), product)


def _are_floats(*numbers: float) -> bool:
    """Whether float32 holds numbers exactly, as an attribute must."""
    return all(float(np.float32(number)) == number for number in numbers)


def _times(emit: TorchEmitter, factor: Tensor | float, x: Tensor) -> Tensor:
    if isinstance(factor, Tensor):
        return emit.op("Mul", x, emit.cast(emit.scalar(factor), x.dtype))
    return x if factor == 1 else emit.op("Mul", x, emit.like(factor, x))
