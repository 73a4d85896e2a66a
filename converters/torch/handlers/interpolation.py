"""lerp: points between two, from the nearer of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.lerp.Tensor", to="Where, Mul, Add")
@handles("aten.lerp.Scalar", to="Where, Mul, Add")
def linear_interpolation(node: Node, emit: TorchEmitter) -> Tensor:
    """self + weight * (end - self), and end + (weight - 1) * (end - self) for weights from a half on."""
    start, end = (emit.wide(node.tensor(name)) for name in ("self", "end"))
    given = node.number("weight")
    weight = emit.cast(given, start.dtype) if isinstance(given, Tensor) else emit.like(given, start)
    is_near = emit.op("Less", emit.op("Abs", weight), emit.like(0.5, start))
    factor = emit.op("Where", is_near, weight, emit.op("Sub", weight, emit.like(1, start)))
    base = emit.op("Where", is_near, start, end)
    made = emit.op("Add", base, emit.op("Mul", factor, emit.op("Sub", end, start)))
    return emit.cast(made, node.tensor("self").dtype)
