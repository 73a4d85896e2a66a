"""ATB Reduce, Softmax, Cumsum and Sort."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, handles, refuse
from onnx_sparse.converters.ascend.compositions import softmax_over, top_k
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.tensor import Tensor

_REDUCTIONS = {"MAX": 1, "MIN": 2, "SUM": 3}
_ONNX_REDUCTIONS = {1: "ReduceMax", 2: "ReduceMin", 3: "ReduceSum"}


@handles("Reduce", to="ReduceMax, ReduceMin, ReduceSum")
def reduce(node: Node, emit: AscendEmitter) -> Tensor:
    """ReduceOperation; the axes are removed from the result."""
    (x,) = node.take(1)
    name = _ONNX_REDUCTIONS.get(node.params.enum("reduceType", _REDUCTIONS, 0))
    axes = sorted({x.axis(axis) for axis in node.params.integers("axis")})
    if name is None or not axes:
        refuse("ERROR_INVALID_PARAM", "reduceType must be MAX, MIN or SUM, and axis not empty")
    return emit.in_float32(lambda wide: emit.reduce(name, wide, axes, keepdims=False), x)


@handles("Softmax", to="Softmax")
def softmax(node: Node, emit: AscendEmitter) -> Tensor:
    """SoftmaxOperation over one axis or several consecutive ones, in float32."""
    (x,) = node.take(1)
    axes = [x.axis(axis) for axis in node.params.integers("axes")]
    if not axes or axes != list(range(axes[0], axes[0] + len(axes))):
        refuse("ERROR_INVALID_PARAM", f"axes {axes} are not consecutive and ascending")
    return softmax_over(emit, x, axes)


@handles("Cumsum", to="CumSum")
def cumsum(node: Node, emit: AscendEmitter) -> Tensor:
    """CumsumOperation along one axis, summed in float32."""
    (x,) = node.take(1)
    axes = node.params.integers("axes")
    if len(axes) != 1 or node.params.flag("reverse", False):
        refuse("ERROR_INVALID_PARAM", f"axes {axes}: one axis expected, and reverse = false")
    axis = emit.constant(x.axis(axes[0]))
    exclusive = int(node.params.flag("exclusive", False))
    return emit.in_float32(lambda wide: emit.op("CumSum", wide, axis, shape=x.shape, exclusive=exclusive), x)


@handles("Sort", to="TopK", exact=True)
def sort(node: Node, emit: AscendEmitter) -> Results:
    """SortOperation: the `num` largest of the last axis in descending order, and their int32 positions."""
    (x,) = node.take(1)
    num = node.params.integers("num")
    if len(num) != 1 or num[0] <= 0:
        refuse("ERROR_INVALID_PARAM", f"num {num}: one positive number expected")
    last = (x.shape or ())[x.axis(-1)]
    if last is not None and num[0] > last:
        refuse("ERROR_INVALID_PARAM", f"num {num[0]} is more than the last axis of {x} has")
    values, positions = top_k(emit, x, num[0], axis=-1, largest=True)
    return (values, emit.cast(positions, TensorProto.INT32))
