"""atan2 and angle, which torch's exporter writes so that NaN becomes an angle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.writing.lowering.angles import angle as angle_of

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.atan2.default", to="Atan")
def atan2(node: Node, emit: TorchEmitter) -> Tensor:
    """The angle of a point."""
    return angle_of(emit, *(_of_sum(emit, node.tensor(name)) for name in ("self", "other")))


def _of_sum(emit: TorchEmitter, x: Tensor) -> Tensor:
    """A coordinate; if it is a sum that is 0, then without a sign, as in torch: ONNX Runtime's of -0 alone is -0."""
    zero = emit.like(0, x)
    return emit.op("Where", emit.op("Equal", x, zero), zero, x) if emit.is_made_by(x, "ReduceSum") else x


@handles("aten.angle.default", to="Where")
def angle(node: Node, emit: TorchEmitter) -> Tensor:
    """The angle of a number without an imaginary part: 0, or pi where it is negative."""
    x = emit.floats(node.tensor("self"))
    zero = emit.like(0, x)
    made = emit.op("Where", emit.op("Less", x, zero), emit.like(math.pi, x), zero)
    return emit.op("Where", emit.op("IsNaN", x), x, made)
