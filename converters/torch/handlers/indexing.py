"""x[ids], x[mask] and x[ids, ids] = y."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles(
    "aten.index.Tensor",
    to="Gather or Compress",
    notes="One tensor of ids, or one mask of one dimension. Others are converted by torch's exporter.",
)
def index(node: Node, emit: TorchEmitter) -> Tensor:
    """Slices by ids, of which negative ones count from the end, or those where a mask is set."""
    x, indices = node.tensor("self"), node.tensors("indices")
    given = [(axis, ids) for axis, ids in enumerate(indices) if ids is not None]
    if len(given) == 1:
        axis, ids = given[0]
        if ids.dtype in (TensorProto.INT32, TensorProto.INT64):
            return emit.gathered(x, ids, axis)
        if ids.dtype == TensorProto.BOOL and ids.shape is not None and ids.rank == 1:
            sizes = None if x.shape is None else (*x.shape[:axis], None, *x.shape[axis + 1 :])
            return emit.op("Compress", x, ids, axis=axis, shape=sizes)
    return emit.by_torchlib("aten_index", x, indices)


@handles("aten.index_put.default", to="ScatterND", notes="By torch's exporter, but for ids that are broadcast.")
def index_put(node: Node, emit: TorchEmitter) -> Tensor:
    """Elements by ids or a mask are set, or added to. Ids that are broadcast with none are none."""
    indices = node.tensors("indices")
    given = [ids for ids in indices if ids is not None]
    if any(ids.dtype == TensorProto.BOOL for ids in given):
        broadcast = indices
    else:
        together = iter(_broadcast([emit.int64(ids) for ids in given], emit))
        broadcast = [None if ids is None else next(together) for ids in indices]
    return emit.by_torchlib(
        "aten_index_put", node.tensor("self"), broadcast, node.tensor("values"), accumulate=node.flag("accumulate")
    )


def _broadcast(tensors: list[Tensor], emit: TorchEmitter) -> list[Tensor]:
    """Tensors with one shape; a size of 1 becomes 0 where another is."""
    sizes = [emit.value(tensor).shape for tensor in tensors]
    if all(size is not None and size == sizes[0] and not size.has_unknown_dim() for size in sizes):
        return tensors
    shape = emit.shape_of(tensors[0])
    for tensor in tensors[1:]:
        shape = emit.shape_of(emit.op("Expand", tensor, shape))
    rank = max(tensor.rank for tensor in tensors)
    return [emit.op("Expand", tensor, shape, shape=(None,) * rank) for tensor in tensors]
