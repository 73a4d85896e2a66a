"""Group normalization; torch's mean and variance do not overflow where the sum of float32 does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.native_group_norm.default", to="ReduceSum", notes="Moments in double precision, as exact as torch's.")
def group_norm(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor, Tensor]:
    """Channels [N, C, ...] normalized by groups, and each group's mean and inverse deviation [N, groups]."""
    given, groups = node.tensor("input"), node.integer("group")
    node.disregard("N", "C", "HxW")  # they are the input's sizes
    affine = [node.optional(name) for name in ("weight", "bias")]
    x = emit.wide(given)
    mean, variance = _moments(emit, x, groups)
    eps = node.number("eps")
    eps = emit.cast(eps, x.dtype) if isinstance(eps, Tensor) else emit.like(eps, x)
    inverse = emit.op("Reciprocal", emit.op("Sqrt", emit.op("Add", variance, eps)))
    split = emit.op("Concat", emit.count(x, 0), emit.constant([groups]), _per_group(emit, x, groups), axis=0)
    channels = emit.op("Concat", emit.count(x, 0), emit.count(x, 1), axis=0)

    def by_channel(group: Tensor) -> Tensor:
        """One number [N, C] for each channel of a group [N, groups]."""
        wide = emit.op("Expand", emit.op("Unsqueeze", group, emit.constant([2])), split)
        return emit.op("Reshape", wide, channels, allowzero=1, shape=(None, None))

    def of_channels(given: Tensor) -> Tensor:
        """Numbers [N, C] with as many dimensions as the input."""
        return emit.op("Unsqueeze", given, emit.constant(list(range(2, x.rank)))) if x.rank > 2 else given

    weight, bias = affine
    scale, center = by_channel(inverse), by_channel(mean)
    if weight is bias is None:
        made = emit.op("Mul", emit.op("Sub", x, of_channels(center)), of_channels(scale), shape=x.shape)
    else:  # in torch's order, which decides what overflows
        if weight is not None:
            scale = emit.op("Mul", scale, emit.cast(weight, x.dtype))
        shift = emit.op("Neg", emit.op("Mul", scale, center))
        if bias is not None:
            shift = emit.op("Add", shift, emit.cast(bias, x.dtype))
        made = emit.op("Add", emit.op("Mul", x, of_channels(scale)), of_channels(shift), shape=x.shape)
    dtype = next((each.dtype for each in affine if each is not None), given.dtype)
    return emit.cast(made, given.dtype), emit.cast(mean, dtype), emit.cast(inverse, dtype)


def _per_group(emit: TorchEmitter, x: Tensor, groups: int) -> Tensor:
    """How many channels are in a group, as a vector of one element."""
    return emit.op("Div", emit.count(x, 1), emit.constant([groups]))


def _moments(emit: TorchEmitter, x: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """The mean and the variance of each group [N, groups]: of no elements 0 and NaN, of an infinite one NaN.

    A variance beyond the type is infinite; torch's is that or NaN, by the number of elements.
    """
    count = _per_group(emit, x, groups)
    for axis in range(2, x.rank):
        count = emit.op("Mul", count, emit.count(x, axis))
    sizes = emit.op("Concat", emit.count(x, 0), emit.constant([groups]), count, axis=0)
    rows = emit.op("Reshape", emit.cast(x, TensorProto.DOUBLE), sizes, allowzero=1, shape=(None, groups, None))
    last, number = emit.constant([2]), emit.cast(count, rows.dtype)
    mean = emit.op("ReduceSum", rows, last, keepdims=1)
    mean = emit.op("Div", mean, emit.op("Max", number, emit.like(1, rows)))
    away = emit.op("Sub", rows, mean)
    squares = emit.op("ReduceSum", emit.op("Mul", away, away), last, keepdims=0)
    mean = emit.op("Squeeze", mean, last)
    mean = emit.op("Where", emit.op("IsNaN", squares), squares, mean)
    return emit.cast(mean, x.dtype), emit.cast(emit.op("Div", squares, number), x.dtype)
