"""roll: slices move along dimensions, and those that leave at the end come back at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.writing.lowering.reordering import rolled

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.roll.default", to="Slice, Concat")
def roll(node: Node, emit: TorchEmitter) -> Tensor:
    """The slices moved by numbers that may be sizes; without dimensions, the elements one after the other."""
    x, shifts, dims = node.tensor("self"), node.numbers("shifts"), node.numbers("dims")
    if not x.rank:
        return x
    moved = x if dims else emit.op("Reshape", x, emit.constant([-1]), shape=(None,))
    axes = [moved.axis(int(dim)) for dim in dims or [0]]  # type: ignore[arg-type]  # dimensions are constants
    moved = rolled(emit, moved, [emit.vector(shift) for shift in shifts], axes)
    return moved if dims else emit.op("Reshape", moved, emit.shape_of(x), shape=x.shape, allowzero=1)
