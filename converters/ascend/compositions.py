"""Functions without an ONNX operator, or without ONNX Runtime kernels for all types, for ATB, GE and torch_npu."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.shapes import element_count, place
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.partitioning import merged_axes
from onnx_sparse.converters.writing.lowering.slicing import split_equally

#: The most ranges of a MaskedFillRange, each of which becomes several nodes.
_MOST_RANGES = 4096


def select(emit: AscendEmitter, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """ONNX Where of two tensors of one element type."""
    if x.dtype != y.dtype:
        raise Unsupported(f"its inputs are of different element types: {x}, {y}")
    return emit.op("Where", condition, x, y)


def swapped(emit: AscendEmitter, tensor: Tensor) -> Tensor:
    """A tensor with its last two axes swapped."""
    last = tensor.rank - 1
    if last < 1:
        raise Unsupported(f"{tensor} is not a matrix")
    return emit.transpose(tensor, [*range(last - 1), last, last - 1])


def halves(emit: AscendEmitter, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The two halves of x along an axis; half floats in float32."""
    axis = place(x, dim)
    if (x.dim(axis) or 0) % 2:
        raise Unsupported(f"axis {axis} of {x} does not split into two halves")
    first, second = split_equally(emit, emit.wide(x), axis, 2)
    return first, second


def fast_gelu(emit: AscendEmitter, x: Tensor) -> Tensor:
    """X * exp(0.851 * (x - |x|)) * sigmoid(1.702 * |x|): no exponential overflows."""
    size = emit.op("Abs", x)
    decay = emit.op("Exp", emit.op("Mul", emit.op("Sub", x, size), emit.like(0.851, x)))
    gate = emit.op("Sigmoid", emit.op("Mul", size, emit.like(1.702, x)))
    return emit.op("Mul", emit.op("Mul", x, decay), gate)


def rms_normalized(
    emit: AscendEmitter, x: Tensor, gamma: Tensor, epsilon: float, axes: int = 1
) -> tuple[Tensor, Tensor]:
    """The float32 x normalized over its last axes and scaled, and 1 / sqrt(mean(x^2) + epsilon)."""
    if not 0 < axes <= x.rank:
        raise Unsupported(f"{x} is not normalized over {axes} axes")
    mean = emit.reduce("ReduceMean", emit.op("Mul", x, x), [*range(x.rank - axes, x.rank)], keepdims=True)
    root = emit.op("Sqrt", emit.op("Add", mean, emit.like(epsilon, x)))
    scaled = emit.op("Mul", emit.op("Div", x, root), gamma)
    return scaled, emit.op("Reciprocal", root)


def layer_normalized(emit: AscendEmitter, x: Tensor, gamma: Tensor, beta: Tensor, axis: int, epsilon: float) -> Tensor:
    """The float32 x normalized over its axes from `axis` on."""
    own = (x.shape or ())[axis:]
    if own == gamma.shape == beta.shape or (None in own and gamma.rank == beta.rank == len(own)):
        scale, bias = gamma, beta
    else:  # gammas of shape [1, n] are common
        rest, known = emit.shape_of(x, axis), None if x.shape is None else x.shape[axis:]
        scale, bias = (emit.reshaped(tensor, rest, known) for tensor in (gamma, beta))
    arguments = (x, emit.cast(scale, x.dtype), emit.cast(bias, x.dtype))
    return emit.op("LayerNormalization", *arguments, shape=x.shape, axis=axis, epsilon=epsilon)


def softmax_over(emit: AscendEmitter, x: Tensor, axes: list[int]) -> Tensor:
    """Softmax over consecutive axes as if they were one."""
    ordered = [place(x, axis) for axis in axes]
    if not ordered or ordered != list(range(ordered[0], ordered[0] + len(ordered))):
        raise Unsupported(f"axes {axes} are not consecutive and ascending")
    first = ordered[0]
    if len(ordered) == 1:
        return emit.in_float32(lambda wide: emit.op("Softmax", wide, axis=first), x)
    one_axis = emit.op("Softmax", merged_axes(emit, emit.wide(x), first, len(ordered)), axis=first)
    return emit.cast(emit.reshaped(one_axis, emit.shape_of(x), x.shape), x.dtype)


def top_k(emit: AscendEmitter, x: Tensor, k: int | Tensor, *, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """ONNX TopK in descending (or ascending) order; equal values by position."""
    axis = place(x, axis)
    if isinstance(k, int):
        size = x.dim(axis)
        if k < 0 or (size is not None and k > size):
            raise Unsupported(f"k {k} is not from 0 to the size of axis {axis} of {x}")
        count = emit.constant([k])
    else:
        count = emit.op("Reshape", emit.cast(k, TensorProto.INT64), emit.constant([1]))
    dtypes = [x.dtype, TensorProto.INT64]
    values, positions = emit.ops("TopK", [x, count], dtypes, axis=axis, largest=int(largest), sorted=1)
    return values, positions


def range_filled(emit: AscendEmitter, x: Tensor, start: Tensor, end: Tensor, value: Tensor, axis: int) -> Tensor:
    """For each i, in turn, and each row j of x: x[j, ..., start[i, j]:end[i, j]] = value[i], the range along `axis`.

    start and end are [count, rows]. Further rows of x are unchanged. With axis 0 there are no rows: start and end must
    be [count, 1].
    """
    axis = x.axis(axis)
    if start.rank != 2 or start.dims != end.dims or value.dims != start.dims[:1]:
        raise Unsupported(f"{start}, {end}, {value}: [count, rows] twice and [count] expected")
    count, rows = start.dims
    all_rows = 1 if axis == 0 else x.dims[0]
    if rows > all_rows:
        raise Unsupported(f"{start} has more rows than {x}" + (" along axis 0" if axis == 0 else ""))
    size = x.dims[axis]
    if count > _MOST_RANGES:
        raise Unsupported(f"{start}: more than {_MOST_RANGES} ranges one after the other")
    emit.spend(size + count * all_rows)
    places = np.arange(size).reshape([size if i == axis else 1 for i in range(x.rank)])
    positions = emit.constant(places, TensorProto.INT64)
    bounds = []
    for bound in (start, end):
        wide = emit.cast(bound, TensorProto.INT64)
        if rows < all_rows:  # the range 0:0 is empty
            wide = emit.concat([wide, emit.constant(np.zeros((count, all_rows - rows), np.int64))], 1)
        bounds.append(wide)
    column = [all_rows if i == 0 and axis != 0 else 1 for i in range(x.rank)]
    for i in range(count):
        first, last = (emit.reshape(emit.slice(bound, [i], [i + 1], [0]), column) for bound in bounds)
        reached = emit.op("GreaterOrEqual", positions, first)
        mask = emit.op("And", reached, emit.op("Less", positions, last))
        one = emit.scalar(emit.cast(emit.slice(value, [i], [i + 1], [0]), x.dtype))
        (x,) = emit.domain_op("MaskedFill", {"x": x, "mask": mask, "value": one})
    return x


def strided_view(emit: AscendEmitter, x: Tensor, size: list[int], stride: list[int], offset: int) -> Tensor:
    """Element i of the result is element offset + sum(i * stride) of the contiguous x."""
    if len(size) != len(stride) or min(size, default=0) < 0:
        raise Unsupported(f"size {size} and stride {stride} do not fit together")
    ends = [(dim - 1) * step for dim, step in zip(size, stride, strict=True)]
    lowest, highest = offset + sum(min(e, 0) for e in ends), offset + sum(max(e, 0) for e in ends)
    count = element_count(x.shape)
    if 0 not in size and (lowest < 0 or (count is not None and highest >= count)):
        raise Unsupported(f"it reads elements {lowest} to {highest} of {count}")
    emit.spend(math.prod(size))
    positions = np.full(size, offset, np.int64)
    for axis, step in enumerate(stride):
        positions += (np.arange(size[axis]) * step).reshape([-1] + [1] * (len(size) - axis - 1))
    flat = emit.reshape(x, [-1 if count is None else count])
    return emit.op("Gather", flat, emit.constant(positions), shape=tuple(size), axis=0)


def rotated_by_halves(emit: AscendEmitter, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """X * cos + rotated(x) * sin, where the second half of the last axis, negated, comes before the first."""
    size = (x.shape or (None,))[-1]
    if size is not None and size % 2:
        raise Unsupported(f"the last axis of {x} does not split into two halves")
    first, second = split_equally(emit, x, place(x, -1), 2)
    turned = emit.concat([emit.op("Neg", second), first], place(x, -1))
    return emit.op("Add", emit.op("Mul", x, cos), emit.op("Mul", turned, sin))


def scaled_masked_softmax(
    emit: AscendEmitter, x: Tensor, mask: Tensor | None, scale: float, *, upper_triangle: bool = False
) -> Tensor:
    """Softmax over the last axis of x * scale, with -10000 where the mask is true, or above the diagonal."""
    wide = emit.wide(x)
    scores = emit.op("Mul", wide, emit.like(scale, wide))
    masked = emit.like(-10000.0, wide)
    if upper_triangle:
        rows, columns = (
            emit.op("Range", emit.constant(0), emit.scalar(emit.size(x, axis)), emit.constant(1), shape=(None,))
            for axis in (-2, -1)
        )
        mask = emit.op("Greater", columns, emit.op("Unsqueeze", rows, emit.constant([1])))
    if mask is not None:
        scores = emit.op("Where", emit.cast(mask, TensorProto.BOOL), masked, scores)
    return emit.cast(emit.op("Softmax", scores, axis=place(x, -1), shape=scores.shape), x.dtype)
