"""Adaptive pooling: as many windows as are asked for, of nearly equal sizes; torch decomposes it for one size."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.schemas.declaration import FLOATS

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

_MEMORY = "In memory for all pairs of windows and places along a dimension, where sizes are not multiples."


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
        is_inside = _windows(emit, x, axis, size)
        x = _reduced(emit, x, axis, is_inside, 0, "ReduceSum")
        count = emit.op("ReduceSum", emit.cast(is_inside, x.dtype), emit.constant([1]), keepdims=0)
        after = list(range(axis + 1 - x.rank, 0))
        counts.append(emit.op("Unsqueeze", count, emit.constant(after)) if after else count)
    return emit.cast(emit.op("Div", x, reduce(lambda a, b: emit.op("Mul", a, b), counts), shape=x.shape), given.dtype)


@handles("aten.adaptive_max_pool2d.default", to="ReduceMax", notes=_MEMORY)
@handles("aten.adaptive_max_pool3d.default", to="ReduceMax", notes=_MEMORY)
def adaptive_max_pool(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The maxima of windows along the last dimensions, and where each is: of equal ones the first, of NaN the last."""
    x, sizes = node.tensor("self"), node.numbers("output_size")
    first = x.rank - len(sizes)
    largest, every = x, emit.constant(np.ones((1, 1), bool))
    for axis, size in enumerate(sizes, first):
        is_inside = _windows(emit, x, axis, size)
        largest = _reduced(emit, largest, axis, is_inside, float("-inf"), "ReduceMax")
        # Pairs of windows and places of all dimensions so far, and of this one.
        pairs = emit.op(
            "And",
            emit.op("Unsqueeze", every, emit.constant([1, 3])),
            emit.op("Unsqueeze", is_inside, emit.constant([0, 2])),
        )
        shape = emit.op("Mul", emit.op("Shape", every, shape=(2,)), emit.op("Shape", is_inside, shape=(2,)), shape=(2,))
        every = emit.op("Reshape", pairs, shape, shape=(None, None))
    before = emit.shape_of(x, 0, first)
    last = emit.constant([-1])
    flat = emit.op("Reshape", x, emit.op("Concat", before, last, axis=0), shape=(*_sizes(x)[:first], None))
    best = emit.op("Reshape", largest, emit.op("Concat", before, last, axis=0), shape=(*_sizes(x)[:first], None))
    best, among = (emit.op("Unsqueeze", each, emit.constant([k])) for each, k in ((best, first + 1), (flat, first)))
    is_nan = emit.op("IsNaN", best)
    is_best = emit.op("Or", emit.op("Equal", among, best), emit.op("And", emit.op("IsNaN", among), is_nan))
    count = emit.scalar(emit.count(flat, first))
    places = emit.op("Range", emit.constant(0), count, emit.constant(1), shape=(None,))
    backwards = emit.op("Sub", emit.op("Sub", count, emit.constant(1)), places)
    ranks = emit.op("Where", is_nan, places, backwards)
    chosen = emit.op("ReduceMax", emit.op("Where", emit.op("And", every, is_best), ranks, last), last, keepdims=1)
    at = emit.op("Where", is_nan, chosen, emit.op("Sub", emit.op("Sub", count, emit.constant(1)), chosen))
    return largest, emit.op("Reshape", at, emit.shape_of(largest), shape=largest.shape)


def _sizes(x: Tensor) -> Shape:
    return (None,) * x.rank if x.shape is None else x.shape


def _windows(emit: TorchEmitter, x: Tensor, axis: int, windows: Tensor | int) -> Tensor:
    """Which places along a dimension are in each of so many windows, bool [windows, places]."""
    size, count = emit.count(x, axis), emit.vector(windows)
    places, order = (
        emit.op("Range", emit.constant(0), emit.scalar(n), emit.constant(1), shape=(None,)) for n in (size, count)
    )
    begins = emit.op("Div", emit.op("Mul", order, size), count)
    # The next window's begin, rounded up.
    upto = emit.op("Mul", emit.op("Add", order, emit.constant(1)), size)
    ends = emit.op("Div", emit.op("Sub", emit.op("Add", upto, count), emit.constant(1)), count)
    begins, ends = (emit.op("Unsqueeze", each, emit.constant([1])) for each in (begins, ends))
    return emit.op("And", emit.op("LessOrEqual", begins, places), emit.op("Less", places, ends), shape=(None, None))


def _reduced(emit: TorchEmitter, x: Tensor, axis: int, is_inside: Tensor, rest: float, reduction: str) -> Tensor:
    """The elements along a dimension, reduced by windows."""
    after = x.rank - 1 - axis
    among = emit.op("Unsqueeze", x, emit.constant([axis]))
    chosen = emit.op("Unsqueeze", is_inside, emit.constant(list(range(-after, 0)))) if after else is_inside
    shape = (*_sizes(x)[:axis], None, *_sizes(x)[axis + 1 :])
    held = emit.op("Where", chosen, among, emit.like(rest, x))
    return emit.op(reduction, held, emit.constant([axis + 1]), keepdims=0, shape=shape)
