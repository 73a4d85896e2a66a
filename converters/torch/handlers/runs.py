"""unique_consecutive: runs of equal elements or slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.unique_consecutive.default", to="Compress, CumSum")
def unique_consecutive(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor, Tensor]:
    """The first of each run of equal elements or slices, the run of each, and how long runs are; NaN equals nothing."""
    x, dim = node.tensor("self"), node.optional_integer("dim")
    if dim is not None and x.rank:
        return _runs(node, emit, x, x.axis(dim))
    flat = emit.op("Reshape", x, emit.constant([-1]), shape=(None,))
    values, numbers, lengths = _runs(node, emit, flat, 0)
    if node.flag("return_inverse"):
        numbers = emit.op("Reshape", numbers, emit.shape_of(x), shape=x.shape, allowzero=1)
    return values, numbers, lengths


@handles("aten.unique_dim_consecutive.default", to="Compress, CumSum")
def unique_consecutive_slices(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor, Tensor]:
    """As `unique_consecutive`, along a dimension."""
    x = node.tensor("self")
    return _runs(node, emit, x, x.axis(node.integer("dim")))


def _runs(node: Node, emit: TorchEmitter, x: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    zero, one, far = emit.constant([0]), emit.constant([1]), emit.constant([2**62])
    along = emit.constant([axis])
    after = emit.op("Slice", x, one, far, along)
    before = emit.op("Slice", x, zero, emit.constant([-1]), along)
    differs = emit.cast(emit.op("Not", emit.op("Equal", after, before)), TensorProto.INT64)
    others = [other for other in range(x.rank) if other != axis]
    if others:
        differs = emit.op("ReduceSum", differs, emit.constant(others), keepdims=0, shape=(None,))
        differs = emit.op("Min", differs, emit.constant(1), shape=(None,))
    count = emit.count(x, axis)
    first = emit.op("Slice", one, zero, count, shape=(None,))  # no first where there is nothing
    starts = emit.op("Concat", first, differs, axis=0, shape=(None,))
    is_start = emit.cast(starts, TensorProto.BOOL)
    sizes = None if x.shape is None else (*x.shape[:axis], None, *x.shape[axis + 1 :])
    values = emit.op("Compress", x, is_start, axis=axis, shape=sizes)
    nothing = emit.constant([], TensorProto.INT64)
    numbers = lengths = nothing
    if node.flag("return_inverse"):
        numbers = emit.op("Sub", emit.op("CumSum", starts, emit.constant(0)), one, shape=(None,))
    if node.flag("return_counts"):
        places = emit.op("Reshape", emit.op("NonZero", is_start), emit.constant([-1]), shape=(None,))
        bounds = emit.op("Concat", places, count, axis=0, shape=(None,))
        ends, begins = (
            emit.op("Slice", bounds, *range_, shape=(None,)) for range_ in ((one, far), (zero, emit.constant([-1])))
        )
        lengths = emit.op("Sub", ends, begins, shape=(None,))
    return values, numbers, lengths
