"""Numbers as tensors: torch's exporter rounds each to float32 before it casts it to the type of the tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.scalar_tensor.default", to="Constant, Cast")
def scalar_tensor(node: Node, emit: TorchEmitter) -> Tensor:
    """A number in a type, by default float."""
    return _number(node, "s", node.optional_integer("dtype") or TensorProto.FLOAT, emit)


@handles("aten.full_like.default", to="Expand")
def full_like(node: Node, emit: TorchEmitter) -> Tensor:
    """A number in every element, by default in the type of a tensor of that shape."""
    like = node.tensor("self")
    number = _number(node, "fill_value", node.optional_integer("dtype") or like.dtype, emit)
    return emit.op("Expand", number, emit.shape_of(like), shape=like.shape)


def _number(node: Node, name: str, dtype: int, emit: TorchEmitter) -> Tensor:
    node.disregard("layout", "device", "pin_memory")  # and all results are contiguous
    if node.has("memory_format"):
        node.disregard("memory_format")
    number = node.number(name)
    return emit.cast(number, dtype) if isinstance(number, Tensor) else emit.constant(number, dtype)
