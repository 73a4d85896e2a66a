"""Group and batch normalization; torch's mean and variance do not overflow where the sum of float32 does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

_DOUBLE = "Moments in double precision, as exact as torch's."


@handles("aten.native_group_norm.default", to="ReduceSum", notes=_DOUBLE)
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
        return _of_channels(emit, given, x)

    weight, bias = affine
    scale, center = by_channel(inverse), by_channel(mean)
    if weight is bias is None:
        made = emit.op("Mul", emit.op("Sub", x, of_channels(center)), of_channels(scale), shape=x.shape)
    else:
        made = _scaled(emit, x, scale, center, weight, bias)
    dtype = next((each.dtype for each in affine if each is not None), given.dtype)
    return emit.cast(made, given.dtype), emit.cast(mean, dtype), emit.cast(inverse, dtype)


def _of_channels(emit: TorchEmitter, given: Tensor, x: Tensor) -> Tensor:
    """Numbers [C] or [N, C] for the channels of an input, which may have more dimensions."""
    after = list(range(2 - x.rank, 0))
    return emit.op("Unsqueeze", given, emit.constant(after)) if after else given


def _scaled(
    emit: TorchEmitter, x: Tensor, scale: Tensor, center: Tensor, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    """Channels times `scale` and `weight`, around `center`: in torch's order, which decides what overflows."""
    if weight is not None:
        scale = emit.op("Mul", scale, emit.cast(weight, x.dtype))
    shift = emit.op("Neg", emit.op("Mul", scale, center))
    if bias is not None:
        shift = emit.op("Add", shift, emit.cast(bias, x.dtype))
    made = emit.op("Mul", x, _of_channels(emit, scale, x))
    return emit.op("Add", made, _of_channels(emit, shift, x), shape=x.shape)


@handles("aten._native_batch_norm_legit_no_training.default", to="BatchNormalization")
def batch_norm(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor, Tensor]:
    """Channels [N, C, ...] normalized by given statistics; of a batch there are none."""
    x = node.tensor("input")
    node.disregard("momentum")
    mean, variance = node.tensor("running_mean"), node.tensor("running_var")
    ones, zeros = (emit.full(value, mean.dtype, emit.shape_of(mean)) for value in (1, 0))
    weight, bias = (node.optional(name) for name in ("weight", "bias"))
    weight, bias = ones if weight is None else weight, zeros if bias is None else bias
    eps = _constant(node, "eps")
    made = emit.op("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps, training_mode=0, shape=x.shape)
    return made, emit.constant([], x.dtype), emit.constant([], x.dtype)


def _constant(node: Node, name: str) -> float:
    """A number that torch knows.

    Raises:
        Unsupported: It is known only when the model runs.
    """
    number = node.number(name)
    if isinstance(number, Tensor):
        raise Unsupported(f"{name} depends on a size; a constant number expected")
    return number


@handles("aten._native_batch_norm_legit.no_stats", to="ReduceMean", notes=_DOUBLE)
@handles("aten._native_batch_norm_legit_functional.default", to="ReduceMean", notes=_DOUBLE)
@handles("aten._batch_norm_with_update_functional.default", to="ReduceMean", notes=_DOUBLE)
def batch_norm_in_training(node: Node, emit: TorchEmitter) -> tuple[Tensor, ...]:
    """Channels [N, C, ...] normalized, each one's mean and inverse deviation, and the statistics after the batch."""
    given, eps, momentum = node.tensor("input"), _constant(node, "eps"), _constant(node, "momentum")
    x = emit.wide(given)
    known = [emit.wide(node.tensor(name)) for name in ("running_mean", "running_var") if node.has(name)]
    is_trained = not node.has("training") or node.flag("training")
    if is_trained:
        mean, variance, unbiased = _channel_moments(emit, x)
        known = [_moved(emit, *pair, momentum) for pair in zip(known, (mean, unbiased), strict=False)]
    else:
        mean, variance = (emit.cast(each, x.dtype) for each in known)
    inverse = emit.op("Reciprocal", emit.op("Sqrt", emit.op("Add", variance, emit.like(eps, x))))
    made = _scaled(emit, x, inverse, mean, node.optional("weight"), node.optional("bias"))
    empty = emit.constant([], given.dtype)
    saved = [emit.cast(each, given.dtype) if is_trained else empty for each in (mean, inverse)]
    if known and not node.has("training"):
        saved.append(emit.constant([], TensorProto.UINT8))  # what only other devices have
    return emit.cast(made, given.dtype), *saved, *known


def _moved(emit: TorchEmitter, before: Tensor, now: Tensor, momentum: float) -> Tensor:
    """A statistic after a batch."""
    now = emit.op("Mul", emit.cast(now, before.dtype), emit.like(momentum, before))
    return emit.op("Add", now, emit.op("Mul", before, emit.like(1 - momentum, before)), shape=before.shape)


def _channel_moments(emit: TorchEmitter, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean, the variance, and the variance of one element less, of each channel."""
    rows = emit.cast(x, TensorProto.DOUBLE)
    along = emit.constant([axis for axis in range(x.rank) if axis != 1])
    away = emit.op("Sub", rows, emit.op("ReduceMean", rows, along, keepdims=1))
    squares = emit.op("ReduceSum", emit.op("Mul", away, away), along, keepdims=0)
    number = emit.cast(emit.op("Div", emit.op("Size", x, shape=()), emit.scalar(emit.count(x, 1))), rows.dtype)
    less = emit.op("Sub", number, emit.like(1, rows))
    mean = emit.cast(emit.op("ReduceMean", rows, along, keepdims=0), x.dtype)
    variance, unbiased = (emit.cast(emit.op("Div", squares, n), x.dtype) for n in (number, less))
    return mean, variance, unbiased


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
