"""masked_fill and masked_select."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles(
    "aten.masked_fill.Scalar",
    "aten.masked_fill.Tensor",
    to="MaskedFill",
    notes="Only if asked for: `translation_table(masked_fill=True)`. torch's own exporter writes Where.",
    opt_in=True,
)
def masked_fill(node: Node, emit: TorchEmitter) -> Tensor:
    """A value where the mask is set; self and mask are broadcast to each other."""
    x, mask, value = node.tensor("self"), node.tensor("mask"), node.number("value")
    number = emit.scalar(value) if isinstance(value, Tensor) else emit.like(value, x)
    sizes = mask.shape or ()
    fits = mask.rank <= x.rank and all(
        sizes[axis] == 1 or emit.same_size(mask, axis, x, axis) for axis in range(-mask.rank, 0)
    )
    if not fits:
        x = emit.op("Expand", x, emit.shape_of(mask))
    (filled,) = emit.domain_op("MaskedFill", {"x": x, "mask": mask, "value": emit.cast(number, x.dtype)})
    return filled


@handles("aten.masked_select.default", to="Compress")
def masked_select(node: Node, emit: TorchEmitter) -> Tensor:
    """The elements where the mask is set, in a vector; self and mask are broadcast to each other."""
    x, mask = node.tensor("self"), node.tensor("mask")
    if x.rank != mask.rank or not all(emit.same_size(x, axis, mask, axis) for axis in range(x.rank)):
        x = emit.op("Expand", x, emit.shape_of(mask))
        mask = emit.op("Expand", mask, emit.shape_of(x))
    elements, chosen = (emit.op("Reshape", tensor, emit.constant([-1]), shape=(None,)) for tensor in (x, mask))
    return emit.op("Compress", elements, chosen, shape=(None,))
