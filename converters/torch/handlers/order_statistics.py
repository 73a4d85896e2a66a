"""median, nanmedian, kthvalue and mode: elements of a dimension by their place in its order.

Of equal elements torch says the place of any; here it is that of the one which a stable order gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.ordering import sorted_along
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.schemas.declaration import FLOATS, DType, numpy_dtype

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.median.dim", to="TopK, GatherElements")
def median(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The lower median along a dimension, and its place; NaN, and the place of the first, if there is one."""
    return _median(node, emit, skips_nan=False)


@handles("aten.nanmedian.dim", to="TopK, GatherElements")
def median_of_numbers(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The lower median of the numbers along a dimension, and its place; NaN if there are none."""
    return _median(node, emit, skips_nan=True)


@handles("aten.median.default", to="TopK, GatherElements")
def median_of_all(node: Node, emit: TorchEmitter) -> Tensor:
    """The lower median of all elements; NaN if one is NaN."""
    return _median_of_all(node, emit, skips_nan=False)


@handles("aten.nanmedian.default", to="TopK, GatherElements")
def median_of_all_numbers(node: Node, emit: TorchEmitter) -> Tensor:
    """The lower median of all numbers; NaN if there are none."""
    return _median_of_all(node, emit, skips_nan=True)


@handles("aten.kthvalue.default", to="TopK, GatherElements")
def kth_value(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along a dimension, and its place; NaN is larger than numbers."""
    x = node.tensor("self")
    if x.rank == 0:
        node.disregard("dim", "k", "keepdim")
        return x, emit.constant(0)
    place = emit.op("Sub", emit.vector(node.number("k")), emit.constant([1]), shape=(1,))
    ones = emit.op("Reshape", place, emit.constant([1] * x.rank))
    return _at(node, emit, x.axis(node.integer("dim")), ones)


@handles("aten.mode.default", to="TopK, ArgMax", notes="In memory for all pairs along the dimension.")
def mode(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The element that is most often along a dimension, of several the smallest, and the place of one of these."""
    x = node.tensor("self")
    if x.rank == 0:
        node.disregard("dim", "k", "keepdim")
        return x, emit.constant(0)
    axis = x.axis(node.integer("dim"))
    ordered, _ = sorted_along(emit, x, axis, descending=False)
    one, other = (emit.op("Unsqueeze", ordered, emit.constant([place])) for place in (axis + 1, axis))
    is_equal = emit.cast(emit.op("Equal", one, other), TensorProto.INT32)
    counts = emit.op("ReduceSum", is_equal, emit.constant([axis + 1]), keepdims=0, shape=x.shape)
    return _at(node, emit, axis, emit.op("ArgMax", counts, axis=axis, keepdims=1))


def _median_of_all(node: Node, emit: TorchEmitter, *, skips_nan: bool) -> Tensor:
    x = emit.op("Reshape", node.tensor("self"), emit.constant([-1]), shape=(None,))
    ordered, _ = sorted_along(emit, x, 0, descending=False)
    # So that no elements have one, too.
    ordered = emit.op("Concat", ordered, emit.constant([_of_none(x.dtype)], x.dtype), axis=0, shape=(None,))
    place = _median_place(emit, x, 0, skips_nan=skips_nan)
    return emit.scalar(emit.op("Gather", ordered, place, axis=0, shape=(1,)))


def _of_none(dtype: DType) -> float:
    """What torch says is the median of no elements."""
    if dtype in FLOATS:
        return float("nan")
    return int(np.iinfo(numpy_dtype(dtype)).min) if dtype in (TensorProto.INT32, TensorProto.INT64) else 0


def _median(node: Node, emit: TorchEmitter, *, skips_nan: bool) -> tuple[Tensor, Tensor]:
    x = node.tensor("self")
    if x.rank == 0:
        node.disregard("dim", "k", "keepdim")
        return x, emit.constant(0)
    axis = x.axis(node.integer("dim"))
    return _at(node, emit, axis, _median_place(emit, x, axis, skips_nan=skips_nan))


def _median_place(emit: TorchEmitter, x: Tensor, axis: int, *, skips_nan: bool) -> Tensor:
    """Where the median is among the ordered elements of an axis, which stays, with size 1."""
    if x.dtype not in FLOATS:
        return _half(emit, emit.op("Reshape", emit.count(x, axis), emit.constant([1] * x.rank)))
    is_number = emit.cast(emit.op("Equal", x, x, shape=x.shape), TensorProto.INT64)
    numbers = emit.op("ReduceSum", is_number, emit.constant([axis]), keepdims=1)
    if skips_nan:
        return _half(emit, numbers)
    count = emit.count(x, axis)
    return emit.op("Where", emit.op("Less", numbers, count), numbers, _half(emit, count))


def _half(emit: TorchEmitter, count: Tensor) -> Tensor:
    """The place of the lower median of so many elements; 0 of none."""
    one = emit.constant(1)
    before = emit.op("Sub", emit.op("Max", count, one), one)
    return emit.op("Div", before, emit.constant(2))


def _at(node: Node, emit: TorchEmitter, axis: int, place: Tensor) -> tuple[Tensor, Tensor]:
    """The elements of the argument `self` at a place of their order along an axis, and where they were."""
    x = node.tensor("self")
    found = sorted_along(emit, x, axis, descending=False)
    sizes = [emit.count(x, other) if other != axis else emit.constant([1]) for other in range(x.rank)]
    shape = None if x.shape is None else (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    places = emit.op("Expand", place, emit.op("Concat", *sizes, axis=0, shape=(x.rank,)), shape=shape)
    value, origin = (emit.op("GatherElements", part, places, axis=axis, shape=shape) for part in found)
    if node.flag("keepdim"):
        return value, origin
    rest = None if x.shape is None else (*x.shape[:axis], *x.shape[axis + 1 :])
    axes = emit.constant([axis])
    return emit.op("Squeeze", value, axes, shape=rest), emit.op("Squeeze", origin, axes, shape=rest)
