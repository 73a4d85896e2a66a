"""segment_reduce and repeat_interleave: segments that follow each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.torch.handlers.segment_ids import ids_of_lengths, ids_of_starts, index, offsets_of_lengths

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

#: What torch gives for an empty segment.
_EMPTY = {"sum": 0.0, "prod": 1.0, "mean": math.nan, "max": -math.inf, "min": math.inf}
#: Reductions that have two names.
_NAMES = {"amax": "max", "amin": "min"}
#: Reductions of which there is an operator that needs no segment ids.
_BAGS = {"sum": "Sum", "mean": "Mean", "max": "Max"}
#: How an initial value takes part.
_MERGE = {"sum": "Add", "prod": "Mul", "mean": "Add", "max": "Max", "min": "Min"}
#: The size of the result, which the repeats say.
_IGNORED = ("output_size",)


@handles(
    "aten.segment_reduce.default",
    to="EmbeddingBagOffsetsSum, -Mean or -Max, SegmentProd or SegmentMin",
    ignored=("unsafe",),  # lengths are always checked
    notes="Lengths or offsets, not indices. Offsets that do not begin at 0 are an error. With an axis other than 0, "
    "lengths must add up in each row; that they do in all rows together is checked.",
)
def segment_reduce(node: Node, emit: TorchEmitter) -> Tensor:
    """The reduction of segments along an axis, which have lengths of their own for each index of the axes before."""
    data, reduction, initial = node.tensor("data"), node.text("reduce"), node.number("initial")
    reduction = _NAMES.get(reduction, reduction)
    if node.optional("indices") is not None:
        raise Unsupported("indices are not supported; torch itself refuses them")
    if reduction not in _EMPTY:
        raise Unsupported(f"reduction {reduction!r} is not known")
    axis = data.axis(node.integer("axis"))
    start = None if initial is None else _initial(emit, initial, data)
    offsets = node.optional("offsets")
    lengths = emit.int64(node.tensor("lengths")) if offsets is None else _differences(emit, offsets)
    if lengths.rank != axis + 1:
        raise Unsupported(f"lengths of rank {lengths.rank} with axis {axis}")
    if axis == 0:
        offsets = offsets_of_lengths(emit, lengths, data) if offsets is None else emit.int64(offsets)
        return _reduced(emit, data, lengths, offsets, reduction, start)
    inner = (None,) * (data.rank - axis - 1)
    sizes = emit.shape_of(data)
    front, back = (
        emit.op("Slice", sizes, emit.constant([first]), emit.constant([last]), shape=(last - first,))
        for first, last in ((0, axis + 1), (axis + 1, data.rank))
    )
    flat_shape = emit.op("Concat", emit.op("ReduceProd", front, keepdims=1, shape=(1,)), back, axis=0)
    rows = emit.op("Reshape", data, flat_shape, shape=(None, *inner), allowzero=1)
    flat = emit.op("Reshape", lengths, emit.constant([-1]), shape=(None,))
    reduced = _reduced(emit, rows, flat, offsets_of_lengths(emit, flat, rows), reduction, start)
    shape = emit.op("Concat", emit.shape_of(lengths), back, axis=0)
    return emit.op("Reshape", reduced, shape, allowzero=1)


def _initial(emit: TorchEmitter, initial: Tensor | float, data: Tensor) -> Tensor:
    return emit.cast(initial, data.dtype) if isinstance(initial, Tensor) else emit.like(initial, data)


def _differences(emit: TorchEmitter, offsets: Tensor) -> Tensor:
    """The lengths of the segments between offsets, which are in the last dimension."""
    wide = emit.int64(offsets)
    axes = emit.constant([offsets.rank - 1])
    ranges = ((1, 2**62), (0, -1))
    shape = (None,) * offsets.rank
    ends, starts = (
        emit.op("Slice", wide, emit.constant([first]), emit.constant([last]), axes, shape=shape)
        for first, last in ranges
    )
    return emit.op("Sub", ends, starts, shape=shape)


def _reduced(
    emit: TorchEmitter, rows: Tensor, lengths: Tensor, offsets: Tensor, reduction: str, initial: Tensor | None
) -> Tensor:
    """Rows [rows, ...] reduced by segment, given the lengths [segments] and the offsets [segments + 1]."""
    if reduction in _BAGS:
        whole = "Sum" if initial is not None and reduction == "mean" else _BAGS[reduction]
        count = emit.scalar(emit.count(rows, 0))
        positions = emit.op("Range", emit.constant(0), count, emit.constant(1), shape=(None,))
        inputs = {"emb_table": rows, "indices": positions, "offsets": offsets}
        (reduced,) = emit.domain_op(f"EmbeddingBagOffsets{whole}", inputs, {"include_last_offset": "true"})
    else:
        # The last offset begins a segment beyond the last one, whose rows are dropped.
        ids = ids_of_starts(emit, offsets, rows, TensorProto.INT64)
        inputs = {"data": rows, "segment_ids": ids, "num_segments": emit.scalar(emit.count(lengths, 0))}
        attributes = {"fill_mode": "ZERO"} if reduction == "min" else {}
        (reduced,) = emit.domain_op(f"Segment{reduction.title()}", inputs, attributes)
    if initial is not None:
        reduced = emit.op(_MERGE[reduction], reduced, initial, shape=reduced.shape)
    if reduction in ("sum", "prod"):
        return reduced
    if initial is not None and reduction == "mean":
        divisor = emit.cast(emit.op("Max", lengths, emit.constant(1), shape=lengths.shape), rows.dtype)
        reduced = emit.op("Div", reduced, emit.column(divisor, reduced), shape=reduced.shape)
    empty = emit.column(emit.op("Equal", lengths, emit.constant(0), shape=lengths.shape), reduced)
    fill = emit.like(_EMPTY[reduction], rows) if initial is None else initial
    return emit.op("Where", empty, fill, reduced, shape=reduced.shape)


@handles("aten.repeat_interleave.Tensor", ignored=_IGNORED, to="ScatterND, CumSum")
def repeat_interleave(node: Node, emit: TorchEmitter) -> Tensor:
    """Each position as often as `repeats` says."""
    return _repeated(emit, index(emit, node.tensor("repeats")))


@handles("aten.repeat_interleave.self_Tensor", ignored=_IGNORED, to="ScatterND, CumSum, Gather")
def repeat_interleave_of_slices(node: Node, emit: TorchEmitter) -> Tensor:
    """Each slice as often as `repeats` says; of the flattened tensor if there is no dimension."""
    x, repeats, dim = node.tensor("self"), index(emit, node.tensor("repeats")), node.optional_integer("dim")
    if dim is None:
        x, dim = emit.op("Reshape", x, emit.constant([-1]), shape=(None,)), 0
    dim = x.axis(dim)
    if repeats.shape in ((), (1,)):
        repeats = emit.op("Expand", repeats, emit.count(x, dim), shape=(None,))
    return emit.op("Gather", x, _repeated(emit, repeats), axis=dim)


def _repeated(emit: TorchEmitter, repeats: Tensor) -> Tensor:
    total = emit.op("ReduceSum", emit.int64(repeats), keepdims=1, shape=(1,))
    entries = emit.op("Expand", emit.constant(0), total, shape=(None,))
    return ids_of_lengths(emit, repeats, entries, repeats.dtype)


@handles("aten.repeat_interleave.self_int", to="Expand, Reshape", ignored=("output_size",))
def repeat_interleave_evenly(node: Node, emit: TorchEmitter) -> Tensor:
    """Each slice along a dimension, or each element, as often as a number says, which may be the size of an input."""
    x, dim, times = node.tensor("self"), node.optional_integer("dim"), emit.vector(node.number("repeats"))
    if dim is None or x.rank == 0:
        x, dim = emit.op("Reshape", x, emit.constant([-1]), shape=(None,)), 0
    axis = x.axis(dim)
    before, after = emit.constant([1] * (axis + 1)), emit.constant([1] * (x.rank - axis - 1))
    column = emit.op("Unsqueeze", x, emit.constant([axis + 1]))
    repeated = emit.op("Expand", column, emit.op("Concat", before, times, after, axis=0, shape=(x.rank + 1,)))
    sizes = [emit.count(x, other) for other in range(x.rank)]
    sizes[axis] = emit.op("Mul", sizes[axis], times, shape=(1,))
    shape = None if x.shape is None else (*x.shape[:axis], None, *x.shape[axis + 1 :])
    return emit.op("Reshape", repeated, emit.op("Concat", *sizes, axis=0, shape=(x.rank,)), shape=shape, allowzero=1)
