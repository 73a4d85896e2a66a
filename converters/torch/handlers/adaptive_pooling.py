"""Adaptive pooling: as many windows as are asked for, of nearly equal sizes; torch decomposes it for one size."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.writing.lowering.adaptive_windows import AdaptiveWindows
from onnx_sparse.schemas.declaration import FLOATS

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

_MEMORY = "In memory for the numbers of all windows, which overlap where sizes are not multiples."


@handles("aten._adaptive_avg_pool2d.default", to="AveragePool or ReduceSum", notes=_MEMORY)
@handles("aten._adaptive_avg_pool3d.default", to="AveragePool or ReduceSum", notes=_MEMORY)
def adaptive_average_pool(node: Node, emit: TorchEmitter) -> Tensor:
    """The means of windows along the last dimensions.

    Raises:
        Unsupported: Elements are integers.
    """
    given, sizes = node.tensor("self"), node.numbers("output_size")
    if given.dtype not in FLOATS:
        raise Unsupported("integers, whose means torch rounds; floats expected")
    x, first = emit.wide(given), given.rank - len(sizes)
    kernel = [
        known // windows
        for known, windows in zip(_sizes(x)[first:], sizes, strict=True)
        if known is not None and isinstance(windows, int) and windows and known % windows == 0
    ]
    if first == 2 and len(kernel) == len(sizes):
        shape = (*_sizes(x)[:2], *(windows for windows in sizes if isinstance(windows, int)))
        return emit.cast(emit.op("AveragePool", x, kernel_shape=kernel, strides=kernel, shape=shape), given.dtype)
    counts = []
    for axis, size in enumerate(sizes, first):
        windows = _windows(emit, given, axis, size)
        after = list(range(axis + 1 - x.rank, 0))
        inside, lengths = (
            emit.op("Unsqueeze", each, emit.constant(after)) if after else each
            for each in (windows.inside, emit.op("Squeeze", windows.lengths, emit.constant([1])))
        )
        held = emit.op("Where", inside, emit.op("Gather", x, windows.places, axis=axis), emit.like(0, x))
        shape = (*_sizes(x)[:axis], None, *_sizes(x)[axis + 1 :])
        x = emit.op("ReduceSum", held, emit.constant([axis + 1]), keepdims=0, shape=shape)
        counts.append(emit.cast(lengths, x.dtype))
    return emit.cast(emit.op("Div", x, reduce(lambda a, b: emit.op("Mul", a, b), counts), shape=x.shape), given.dtype)


@handles("aten.adaptive_max_pool2d.default", to="ReduceMax", notes=_MEMORY)
@handles("aten.adaptive_max_pool3d.default", to="ReduceMax", notes=_MEMORY)
def adaptive_max_pool(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The maxima of windows along the last dimensions, and where each is: of equal ones the first, of NaN the last."""
    x, sizes = node.tensor("self"), node.numbers("output_size")
    first, dims, last = x.rank - len(sizes), len(sizes), emit.constant([-1])
    numbers, flat, total = x, emit.constant([[0]]), emit.constant(1)
    for k, size in enumerate(sizes):  # windows and the places in them take turns: [batch, o1, k1, o2, k2]
        windows = _windows(emit, x, first + k, size)
        numbers = emit.op("Gather", numbers, windows.places, axis=first + 2 * k)
        if k:
            flat = emit.op("Unsqueeze", flat, emit.constant([-2, -1]))
        flat = emit.op("Add", emit.op("Mul", flat, windows.size), windows.places)
        total = emit.op("Mul", total, windows.size)
    order = [*range(0, 2 * dims, 2), *range(1, 2 * dims, 2)]
    flat = emit.op("Transpose", flat, perm=order)
    counts = emit.op("Shape", flat, end=dims)
    flat = emit.op("Reshape", flat, emit.op("Concat", counts, last, axis=0))
    numbers = emit.op("Transpose", numbers, perm=[*range(first), *(first + k for k in order)])
    shape = emit.op("Concat", emit.shape_of(x, 0, first), emit.op("Shape", flat), axis=0)
    numbers = emit.op("Reshape", numbers, shape, allowzero=1)
    known = (*_sizes(x)[:first], *(size if isinstance(size, int) else None for size in sizes))
    best = emit.op("ReduceMax", numbers, last, keepdims=1, shape=(*known, 1))
    is_nan = emit.op("IsNaN", best)
    is_best = emit.op("Or", emit.op("Equal", numbers, best), emit.op("And", emit.op("IsNaN", numbers), is_nan))
    backwards = emit.op("Sub", emit.op("Sub", total, emit.constant(1)), flat)
    ranks = emit.op("Where", is_nan, flat, backwards)
    chosen = emit.op("ReduceMax", emit.op("Where", is_best, ranks, last), last, keepdims=1)
    at = emit.op("Where", is_nan, chosen, emit.op("Sub", emit.op("Sub", total, emit.constant(1)), chosen))
    largest, places = (emit.op("Squeeze", each, last, shape=known) for each in (best, at))
    return largest, places


def _sizes(x: Tensor) -> Shape:
    return (None,) * x.rank if x.shape is None else x.shape


def _windows(emit: TorchEmitter, x: Tensor, axis: int, count: Tensor | int) -> AdaptiveWindows:
    """So many windows along a dimension."""
    return AdaptiveWindows(emit, emit.scalar(emit.count(x, axis)), emit.scalar(emit.vector(count)))
