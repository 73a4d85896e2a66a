"""x[ids] and x[mask]."""

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
