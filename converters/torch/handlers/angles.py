"""atan2, which torch's exporter writes so that NaN becomes an angle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.writing.lowering.angles import angle

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.atan2.default", to="Atan")
def atan2(node: Node, emit: TorchEmitter) -> Tensor:
    """The angle of a point."""
    return angle(emit, node.tensor("self"), node.tensor("other"))
