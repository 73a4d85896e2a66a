"""roll: slices move along dimensions, and those that leave at the end come back at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.roll.default", to="Slice, Concat")
def roll(node: Node, emit: TorchEmitter) -> Tensor:
    """The slices moved by numbers that may be sizes; without dimensions, the elements one after the other."""
    x, shifts, dims = node.tensor("self"), node.numbers("shifts"), node.numbers("dims")
    if not x.rank:
        return x
    moved = x if dims else emit.op("Reshape", x, emit.constant([-1]), shape=(None,))
    for shift, dim in zip(shifts, dims or [0], strict=True):
        axis = moved.axis(int(dim))  # type: ignore[arg-type]  # dimensions are constants
        shape = moved.shape
        # The remainder by a size of 0 would be an error.
        size = emit.op("Max", emit.count(moved, axis), emit.constant([1]), shape=(1,))
        left = emit.op("Mod", emit.op("Neg", emit.vector(shift), shape=(1,)), size, shape=(1,))
        along, zero, far = emit.constant([axis]), emit.constant([0]), emit.constant([2**62])
        parts = (emit.op("Slice", moved, start, end, along) for start, end in ((left, far), (zero, left)))
        moved = emit.op("Concat", *parts, axis=axis, shape=shape)
    return moved if dims else emit.op("Reshape", moved, emit.shape_of(x), shape=x.shape, allowzero=1)
