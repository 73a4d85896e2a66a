"""cdist: the distances between all rows of two matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles(
    "aten._cdist_forward.default",
    to="Sub, ReduceL2",
    ignored=("compute_mode",),
    notes="From differences, in memory for all pairs of rows; torch may use products, which are less exact.",
)
def distances(node: Node, emit: TorchEmitter) -> Tensor:
    """The p-norm of the difference of each row of one matrix and each of another."""
    one, other = node.tensor("x1"), node.tensor("x2")
    rank = one.rank
    left = emit.op("Unsqueeze", one, emit.constant([rank - 1]))
    right = emit.op("Unsqueeze", other, emit.constant([other.rank - 2]))
    apart = emit.op("Sub", left, right)
    shape = None
    if one.shape is not None and other.shape is not None and rank == other.rank:
        shape = (*one.shape[:-1], other.shape[-2])
    power = node.number("p")
    assert not isinstance(power, Tensor)
    return emit.op("Identity", _norm(emit, apart, float(power), emit.constant([rank])), shape=shape)


def _norm(emit: Emitter, differences: Tensor, power: float, axis: Tensor) -> Tensor:
    """The norm of differences along the last dimension."""
    if power == 2:
        return emit.op("Sqrt", emit.op("ReduceSumSquare", differences, axis, keepdims=0))
    apart = emit.op("Abs", differences)
    if power == 0:
        is_apart = emit.cast(emit.op("Not", emit.op("Equal", apart, emit.like(0, apart))), apart.dtype)
        return emit.op("ReduceSum", is_apart, axis, keepdims=0)
    if power == 1:
        return emit.op("ReduceSum", apart, axis, keepdims=0)
    if math.isinf(power):
        largest = emit.op("ReduceMax", apart, axis, keepdims=0)
        return emit.op("Max", largest, emit.like(0, largest))  # of no columns, 0
    powers = emit.op("ReduceSum", emit.op("Pow", apart, emit.like(power, apart)), axis, keepdims=0)
    return emit.op("Pow", powers, emit.like(1 / power, powers))
