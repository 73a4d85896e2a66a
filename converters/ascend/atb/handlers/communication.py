"""ATB's operations between ranks, where there is only one: nothing is exchanged."""

from __future__ import annotations

from onnx_sparse.converters.ascend.atb.handlers.linear import linear_of_one_rank
from onnx_sparse.converters.ascend.atb.handlers.registry import Node, handles
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor

#: How and with whom tensors are exchanged, which a single rank does not.
_IGNORED = ("rank", "rankRoot", "backend", "commMode", "rankTableFile", "commDomain", "allReduceType")
_DEFAULTS = {"quantType": -1, "outDataType": -1}
_RANKS = "several ranks in a converted model; `replay` computes them from the dump of all ranks"


@handles("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "AllToAll", to="Identity", exact=True, lacks=_RANKS,
         ignored=_IGNORED, defaults=_DEFAULTS)  # fmt: skip
def exchange(node: Node, emit: AscendEmitter) -> Tensor:
    """AllReduce and similar, of one rank: x."""
    _check_alone(node)
    if node.params.integer("quantType", 0) > 0:
        raise Unsupported("quantType: quantized communication is not supported")
    (x,) = node.take(1)
    if node.op_type.startswith("AllGather"):  # a new first axis for the ranks
        return emit.reshape(x, [1, *x.dims])
    return x


@handles("LinearParallel", to="MatMul, Add", weights=(1,), sums=True, lacks=f"{_RANKS}; quantized",
         ignored=_IGNORED, defaults=_DEFAULTS)  # fmt: skip
def linear_parallel(node: Node, emit: AscendEmitter) -> Tensor:
    """LinearParallelOperation of one rank: x @ weight, and a residual."""
    _check_alone(node)
    if node.params.integer("quantType", -1) not in (-1, 0):
        raise Unsupported("quantType: quantized LinearParallel is not supported")
    return linear_of_one_rank(node, emit)


def _check_alone(node: Node) -> None:
    ranks = node.params.integer("rankSize", 0)
    if ranks != 1:
        raise Unsupported(f"it exchanges tensors between {ranks} ranks, and a model is of one")
