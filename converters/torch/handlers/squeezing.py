"""squeeze along given dimensions, which are kept where they are longer than 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.squeeze.dim", to="Squeeze", notes="A dimension of another size than 1 is kept.")
def squeeze_dim(node: Node, emit: TorchEmitter) -> Tensor:
    """Removes one dimension if its size is 1."""
    return _squeezed(node.tensor("self"), [node.integer("dim")], emit)


@handles("aten.squeeze.dims", to="Squeeze", notes="Dimensions of other sizes than 1 are kept.")
def squeeze_dims(node: Node, emit: TorchEmitter) -> Tensor:
    """Removes those of several dimensions whose size is 1."""
    return _squeezed(node.tensor("self"), [int(dim) for dim in node.numbers("dim") if isinstance(dim, int)], emit)


def _squeezed(x: Tensor, dims: list[int], emit: TorchEmitter) -> Tensor:
    if x.shape is None:
        raise Unsupported("the number of dimensions is not known")
    if not x.shape:
        return emit.op("Identity", x, shape=())
    # A dynamic size is none of 1 for torch.export, whatever it is when the model runs.
    axes = sorted({x.axis(dim) for dim in dims if x.shape[x.axis(dim)] == 1})
    kept = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    return emit.op("Squeeze", x, emit.constant(axes), shape=kept) if axes else emit.op("Identity", x, shape=kept)
