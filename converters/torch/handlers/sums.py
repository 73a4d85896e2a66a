"""cumsum, cumprod, std and var, which torch computes in double precision: they are finite where float32's are not.

Sums of float32 in the order of their elements also lose digits, the more the longer they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.schemas.declaration import FLOATS

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

_DOUBLE = "In double precision, as torch."


@handles("aten.cumsum.default", to="CumSum", notes=_DOUBLE)
def cumulative_sum(node: Node, emit: TorchEmitter) -> Tensor:
    """The sum of the elements up to each one."""
    x, dtype = _as_asked(node, emit)
    if not x.rank:
        node.disregard("dim")
        return x
    made = emit.op("CumSum", _summed(emit, x), emit.constant(x.axis(node.integer("dim"))), shape=x.shape)
    return emit.cast(made, dtype)


@handles("aten.cumprod.default", to="ReduceProd", notes=_DOUBLE + " In memory for all pairs along the dimension.")
def cumulative_product(node: Node, emit: TorchEmitter) -> Tensor:
    """The product of the elements up to each one."""
    x, dtype = _as_asked(node, emit)
    if not x.rank:
        node.disregard("dim")
        return x
    axis = x.axis(node.integer("dim"))
    factors = up_to_each(emit, _summed(emit, x), axis, 1)
    made = emit.op("ReduceProd", factors, emit.constant([x.rank]), keepdims=0)
    return emit.cast(moved_back(emit, made, axis, like=x), dtype)


def up_to_each(emit: TorchEmitter, x: Tensor, axis: int, rest: float) -> Tensor:
    """For each element, in the last dimension, those along an axis up to it, and a number for the others.

    The axis comes last before that.
    """
    order = [*(k for k in range(x.rank) if k != axis), axis]
    rows = emit.op("Unsqueeze", emit.op("Transpose", x, perm=order), emit.constant([x.rank - 1]))
    places = emit.op("Range", emit.constant(0), emit.scalar(emit.count(x, axis)), emit.constant(1), shape=(None,))
    until = emit.op("LessOrEqual", places, emit.op("Unsqueeze", places, emit.constant([1])))
    return emit.op("Where", until, rows, emit.like(rest, x))


def moved_back(emit: TorchEmitter, x: Tensor, axis: int, *, like: Tensor) -> Tensor:
    """The last dimension at its place, as it is in another tensor."""
    order = [*(k for k in range(like.rank) if k != axis), axis]
    return emit.op("Transpose", x, perm=[order.index(k) for k in range(like.rank)], shape=like.shape)


def _as_asked(node: Node, emit: TorchEmitter) -> tuple[Tensor, int]:
    """The elements in the type of the result, and this type: int64 for whole numbers where none is asked for."""
    x = node.tensor("self")
    asked = node.optional_integer("dtype")
    dtype = asked or (x.dtype if x.dtype in FLOATS else TensorProto.INT64)
    return emit.cast(x, dtype), dtype


def _summed(emit: TorchEmitter, x: Tensor) -> Tensor:
    """The elements in the type in which sums are computed."""
    return emit.cast(x, TensorProto.DOUBLE) if x.dtype in FLOATS else emit.int64(x)


@handles("aten.std.correction", to="ReduceSum, Sqrt", notes=_DOUBLE)
@handles("aten.std.default", to="ReduceSum, Sqrt", notes=_DOUBLE)
@handles("aten.std.dim", to="ReduceSum, Sqrt", notes=_DOUBLE)
def standard_deviation(node: Node, emit: TorchEmitter) -> Tensor:
    """The root of the variance."""
    return emit.cast(emit.op("Sqrt", _moments(node, emit)[0]), node.tensor("self").dtype)


@handles("aten.var.correction", to="ReduceSum", notes=_DOUBLE)
@handles("aten.var.default", to="ReduceSum", notes=_DOUBLE)
@handles("aten.var.dim", to="ReduceSum", notes=_DOUBLE)
def variance(node: Node, emit: TorchEmitter) -> Tensor:
    """The mean squared distance from the mean along dimensions, of less elements by the correction."""
    return emit.cast(_moments(node, emit)[0], node.tensor("self").dtype)


@handles("aten.var_mean.correction", to="ReduceSum", notes=_DOUBLE)
def variance_and_mean(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The variance, and the mean."""
    squared, mean = _moments(node, emit)
    return emit.cast(squared, node.tensor("self").dtype), emit.cast(mean, node.tensor("self").dtype)


def _moments(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The variance along dimensions, all if none are given, and the mean, in double precision."""
    x = emit.cast(node.tensor("self"), TensorProto.DOUBLE)
    given = (node.numbers("dim") if node.has("dim") else []) or range(x.rank)
    axes = sorted({x.axis(int(dim)) for dim in given if isinstance(dim, int)}) if x.rank else []
    count = emit.constant([1])
    for axis in axes:
        count = emit.op("Mul", count, emit.count(x, axis))
    count = emit.cast(emit.scalar(count), x.dtype)
    is_general = node.has("correction")  # other overloads have a flag
    correction = node.optional_number("correction", 1) if is_general else int(node.flag("unbiased"))
    less = emit.cast(correction, x.dtype) if isinstance(correction, Tensor) else emit.like(correction, x)
    along, kept = emit.constant(axes), int(node.has("keepdim") and node.flag("keepdim"))

    def summed(x: Tensor, keepdims: int) -> Tensor:
        return emit.op("ReduceSum", x, along, keepdims=keepdims) if axes else x

    mean = emit.op("Div", summed(x, 1), count)
    squares = emit.op("Mul", *[emit.op("Sub", x, mean)] * 2)
    left = emit.op("Max", emit.op("Sub", count, less), emit.like(0, x))
    left = emit.op("Mul", left, emit.op("Min", count, emit.like(1, x)))  # of no elements it is NaN
    if axes and not kept:
        mean = emit.op("Squeeze", mean, along)
    return emit.op("Div", summed(squares, kept), left), mean
