"""Reductions and running sums."""

from __future__ import annotations

import math
from dataclasses import replace

from onnx import TensorProto

from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Shape, Tensor


def _reduce(node: Node, emit: OpenVINOEmitter, op_type: str, x: Tensor) -> Tensor:
    """A reduction; without axes, the tensor as it is."""
    axes, kept = node[1], node.flag("keep_dims", False)
    made = emit.op(op_type, x, emit.vector(axes), keepdims=int(kept), noop_with_empty_axes=1)
    return replace(made, shape=_unknown_dims(x, axes, kept))


def _unknown_dims(x: Tensor, axes: Tensor, kept: bool) -> Shape | None:
    """The rank of a reduction: in the file, a scalar looks like an unknown rank if the axes are not constant."""
    if x.shape is None or axes.shape is None or None in axes.shape:
        return None
    count = 0 if kept else math.prod(axes.dims)
    return (None,) * max(len(x.shape) - count, 0)


_NUMBERS = {
    **{f"Reduce{kind}-1": f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod")},
    **{f"Reduce{kind}-4": f"Reduce{kind}" for kind in ("L1", "L2")},
}
_BOOLEANS = {"ReduceLogicalAnd-1": "ReduceMin", "ReduceLogicalOr-1": "ReduceMax"}


@handles(*_NUMBERS, to=_NUMBERS)
def reduce(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """The reduction of the same name."""
    return _reduce(node, emit, _NUMBERS[node.op_type], node[0])


@handles(*_BOOLEANS, to=_BOOLEANS)
def reduce_truth(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Whether all or any are true."""
    truth = emit.cast(emit.cast(node[0], TensorProto.BOOL), TensorProto.INT32)
    return emit.cast(_reduce(node, emit, _BOOLEANS[node.op_type], truth), TensorProto.BOOL)


@handles("CumSum-3", to="CumSum")
def cumsum(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """CumSum-3."""
    axis = emit.int64(emit.scalar(node[1]))
    exclusive, reverse = int(node.flag("exclusive", False)), int(node.flag("reverse", False))
    return emit.op("CumSum", node[0], axis, exclusive=exclusive, reverse=reverse)
