"""cumsum, cumprod, std and var, which torch computes in double precision: they are finite where float32's are not.

Sums of float32 in the order of their elements also lose digits, the more the longer they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.schemas.declaration import FLOATS

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

_DOUBLE = "In double precision, as torch."
PREFIX_MEMORY = " In another order than torch, and in memory for n * sqrt(n) along a dimension of n."


@handles("aten.cumsum.default", to="CumSum", notes=_DOUBLE)
def cumulative_sum(node: Node, emit: TorchEmitter) -> Tensor:
    """The sum of the elements up to each one."""
    x, dtype = _as_asked(node, emit)
    if not x.rank:
        node.disregard("dim")
        return x
    made = emit.op("CumSum", _summed(emit, x), emit.constant(x.axis(node.integer("dim"))), shape=x.shape)
    return emit.cast(made, dtype)


@handles("aten.cumprod.default", to="ReduceProd", notes=_DOUBLE + PREFIX_MEMORY)
def cumulative_product(node: Node, emit: TorchEmitter) -> Tensor:
    """The product of the elements up to each one."""
    x, dtype = _as_asked(node, emit)
    if not x.rank:
        node.disregard("dim")
        return x
    axis, wide = x.axis(node.integer("dim")), _summed(emit, x)
    return emit.cast(
        up_to_each(emit, wide, axis, 1, lambda each: emit.op("ReduceProd", each, _last(emit), keepdims=0)), dtype
    )


def up_to_each(emit: TorchEmitter, x: Tensor, axis: int, rest: float, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """For each element along an axis, those up to it, reduced.

    The axis is cut into blocks, as many as one has elements: those of a block are reduced up to each of its elements,
    and the blocks up to each block. So n elements need memory for n * sqrt(n), not for all pairs.

    Args:
        emit: Receives the nodes.
        x: The elements.
        axis: The axis, >= 0.
        rest: What changes no result.
        reduce: Reduces the last dimension, in any order.
    """
    order = [*(k for k in range(x.rank) if k != axis), axis]
    count, one = emit.count(x, axis), emit.constant([1])
    root = emit.op("Ceil", emit.op("Sqrt", emit.cast(count, TensorProto.DOUBLE)))
    size = emit.op("Max", emit.int64(root), one)
    missing = emit.op("Sub", emit.op("Mul", size, size), count)
    pads = emit.op("Concat", emit.constant([0] * (2 * x.rank - 1)), missing, axis=0)
    padded = emit.op("Pad", emit.op("Transpose", x, perm=order), pads, emit.like(rest, x))
    others = emit.op("Gather", emit.shape_of(x), emit.constant(order[:-1]))
    blocks = emit.op("Reshape", padded, emit.op("Concat", others, size, size, axis=0), allowzero=1)

    places = emit.op("Range", emit.constant(0), emit.scalar(size), emit.constant(1), shape=(None,))
    until = emit.op("LessOrEqual", places, emit.op("Unsqueeze", places, one))
    before = emit.op("Less", places, emit.op("Unsqueeze", places, one))

    def among(chosen: Tensor, each: Tensor) -> Tensor:
        held = emit.op("Unsqueeze", each, emit.constant([-2]))
        return reduce(emit.op("Where", chosen, held, emit.like(rest, x)))

    within = among(until, blocks)
    totals = emit.op("Gather", within, emit.constant(-1), axis=x.rank)
    earlier = emit.op("Expand", emit.op("Unsqueeze", among(before, totals), _last(emit)), emit.shape_of(within))
    both = emit.op("Concat", *(emit.op("Unsqueeze", each, _last(emit)) for each in (earlier, within)), axis=x.rank + 1)
    flat = emit.op("Reshape", reduce(both), emit.op("Concat", others, emit.op("Mul", size, size), axis=0), allowzero=1)
    made = emit.op("Slice", flat, emit.constant([0]), count, emit.constant([x.rank - 1]))
    return emit.op("Transpose", made, perm=[order.index(k) for k in range(x.rank)], shape=x.shape)


def _last(emit: TorchEmitter) -> Tensor:
    return emit.constant([-1])


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
