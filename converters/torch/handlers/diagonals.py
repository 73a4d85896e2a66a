"""diagonal: elements at which two indices differ by a number.

torch's exporter multiplies by a mask and sums: of NaN or infinity beside the diagonal, all becomes NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.diagonal.default", "aten.diagonal_copy.default", to="Gather")
def diagonal(node: Node, emit: TorchEmitter) -> Tensor:
    """The elements of a diagonal of two dimensions, along a new last one."""
    x, offset = node.tensor("self"), emit.vector(node.number("offset"))
    first, second = (x.axis(node.integer(name)) for name in ("dim1", "dim2"))
    others = [axis for axis in range(x.rank) if axis not in (first, second)]
    matrices = emit.op("Transpose", x, perm=[*others, first, second])
    rows, columns, zero, one = emit.count(x, first), emit.count(x, second), emit.constant([0]), emit.constant([1])
    above = emit.op("Max", offset, zero)
    below = emit.op("Max", emit.op("Neg", offset), zero)
    left = emit.op("Min", emit.op("Sub", rows, below), emit.op("Sub", columns, above))
    start = emit.op("Add", above, emit.op("Mul", below, columns))
    step = emit.op("Add", columns, one)
    end = emit.op("Add", start, emit.op("Mul", emit.op("Max", left, zero), step))
    places = emit.op("Range", *map(emit.scalar, (start, end, step)), shape=(None,))
    sizes = [emit.count(x, axis) for axis in others]
    flat = emit.op("Concat", *sizes, emit.op("Mul", rows, columns), axis=0)
    elements = emit.reshaped(matrices, flat)
    known = None if x.shape is None else (*(x.shape[axis] for axis in others), None)
    return emit.op("Gather", elements, places, axis=len(others), shape=known)
