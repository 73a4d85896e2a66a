"""GE's operators that pick elements by conditions or coordinates, and deal slices out to parts."""

from __future__ import annotations

from dataclasses import replace

from onnx import TensorProto

from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import partitioning
from onnx_sparse.converters.writing.lowering.segment_reductions import scattered
from onnx_sparse.converters.writing.lowering.uniqueness import unique as unique_of

_FLAT = 1000  # the axis of UniqueConsecutive that stands for none


@handles("DynamicPartition", to="Equal, Compress", differs="a number that is not a part is in none; TensorFlow raises")
def dynamic_partition(node: Node, emit: AscendEmitter) -> Results:
    """DynamicPartition(x, partitions | num_partitions): the slices of each part."""
    x, partitions = node.take(2)
    return partitioning.dynamic_partition(emit, x, partitions, node.integer("num_partitions", 1))


@handles("DynamicStitch", "ParallelDynamicStitch", to="ScatterND", differs="places that no index names are 0")
def dynamic_stitch(node: Node, emit: AscendEmitter) -> Tensor:
    """DynamicStitch(indices..., x...): the slices of the tensors at their places; of several for one, the last."""
    tensors = node.take(2, max(len(node.inputs), 2))
    half = len(tensors) // 2
    if len(tensors) % 2:
        raise Unsupported(f"it has {len(tensors)} inputs; as many indices as tensors expected")
    return partitioning.dynamic_stitch(emit, tensors[:half], tensors[half:])


_NAN = "NaN differs from all values, also from itself"


@handles("Unique", to="Unique", differs=_NAN)
@handles("UniqueWithCounts", to="Unique", differs=_NAN)
def unique(node: Node, emit: AscendEmitter) -> Results:
    """Unique(x | out_idx), UniqueWithCounts: values as they first appear, where each element's is, how often it is."""
    (x,) = node.take(1)
    if x.shape is not None and x.rank != 1:
        raise Unsupported(f"{x} is not a vector")
    x = replace(x, shape=x.shape or (None,))
    dtype = ACL.get(node.integer("out_idx", 3), TensorProto.INT32)
    y, places, counts = unique_of(emit, x)
    results = (y, emit.cast(places, dtype), emit.cast(counts, dtype))
    return results if node.op_type == "UniqueWithCounts" else results[:2]


@handles("UniqueExt2", "UniqueWithCountsExt2", to="Unique", differs=_NAN)
def unique_along(node: Node, emit: AscendEmitter) -> Results:
    """UniqueExt2(x, axis | out_idx), UniqueWithCountsExt2: the same of slices along an axis."""
    x, axes = node.take(2)
    given = axes.integers("axis")
    dtype = ACL.get(node.integer("out_idx", 3), TensorProto.INT32)
    y, places, counts = unique_of(emit, x, x.axis(given[0]) if given else 0)
    results = (y, emit.cast(places, dtype), emit.cast(counts, dtype))
    return results if node.op_type == "UniqueWithCountsExt2" else results[:2]


@handles(
    "UniqueConsecutive",
    to="Equal, Compress, CumSum",
    notes="of all elements, or of vectors",
    ignored=("return_idx", "return_counts"),  # both are always computed
)
def unique_consecutive(node: Node, emit: AscendEmitter) -> Results:
    """UniqueConsecutive(x | axis): the elements that differ from the one before, where each is, how often it is."""
    (x,) = node.take(1)
    if node.integer("axis", _FLAT) != _FLAT and x.rank != 1:
        raise Unsupported(f"slices of {x} along an axis")
    flat = emit.op("Reshape", x, emit.constant([-1]))
    count, zero, one, end = emit.shape_of(flat), emit.constant([0]), emit.constant([1]), emit.constant([2**62])
    is_same = emit.op(
        "Equal", emit.op("Slice", flat, one, end), emit.op("Slice", flat, zero, emit.constant([-1])), shape=(None,)
    )
    first = emit.op("Expand", emit.constant(True, TensorProto.BOOL), emit.op("Min", count, one))  # none of nothing
    is_new = emit.op("Concat", first, emit.op("Not", is_same), axis=0)
    places = emit.op("CumSum", emit.cast(is_new, TensorProto.INT64), emit.constant(0))
    starts = emit.op("Reshape", emit.op("NonZero", is_new), emit.constant([-1]))
    ends = emit.op("Concat", emit.op("Slice", starts, one, end), count, axis=0)
    wanted = [(node.results[k].dtype if k < len(node.results) else None) or TensorProto.INT64 for k in (1, 2)]
    index = emit.op("Reshape", emit.op("Sub", places, one), emit.shape_of(x), allowzero=1)
    return (
        emit.op("Compress", flat, is_new, axis=0, shape=(None,)),
        emit.cast(index, wanted[0]),
        emit.cast(emit.op("Sub", ends, starts), wanted[1]),
    )


@handles("MaskedSelect", to="Expand, Compress")
def masked_select(node: Node, emit: AscendEmitter) -> Tensor:
    """MaskedSelect(x, mask), which broadcast: the elements where the mask is true."""
    x, mask = node.take(2)
    elements, chosen = (
        emit.op("Reshape", emit.op("Expand", tensor, emit.shape_of(other)), emit.constant([-1]))
        for tensor, other in ((x, mask), (mask, x))
    )
    return emit.op("Compress", elements, chosen, axis=0, shape=(None,))


@handles("MaskedScatter", to="CumSum, Gather, Where")
def masked_scatter(node: Node, emit: AscendEmitter) -> Tensor:
    """MaskedScatter(x, mask, updates): x, where the mask is true with the updates in their order."""
    x, mask, updates = node.take(3)
    if updates.dtype != x.dtype:
        raise Unsupported(f"{x} and {updates} are of different element types")
    flat, sizes = emit.constant([-1]), emit.shape_of(x)
    chosen = emit.op("Reshape", emit.op("Expand", mask, sizes), flat)
    numbers = emit.op("CumSum", emit.cast(chosen, TensorProto.INT64), emit.constant(0))
    # The element before the first update stands for those of x; too few updates are an error.
    padded = emit.op("Concat", emit.constant([0], x.dtype), emit.op("Reshape", updates, flat), axis=0)
    taken = emit.op("Gather", padded, numbers, axis=0)
    kept = emit.op("Where", chosen, taken, emit.op("Reshape", x, flat))
    return emit.reshaped(kept, sizes, x.shape)


@handles("NonZero", to="NonZero, Transpose")
def non_zero(node: Node, emit: AscendEmitter) -> Tensor:
    """NonZero(x | transpose, dtype): the coordinates of the elements that are not 0, row by row, or transposed."""
    (x,) = node.take(1)
    if x.shape == ():
        raise Unsupported(f"{x} is a scalar")
    found = emit.op("NonZero", emit.cast(x, TensorProto.BOOL), shape=(None if x.shape is None else x.rank, None))
    found = found if node.flag("transpose") else emit.transpose(found, [1, 0])
    return emit.cast(found, ACL.get(node.integer("dtype", 9), TensorProto.INT64))


@handles("IndexByTensor", to="Transpose, GatherND", notes="indices are integers")
def index_by_tensor(node: Node, emit: AscendEmitter) -> Tensor:
    """IndexByTensor(x, indices... | indices_mask): x[indices], where the mask says of which axes there are indices."""
    x, *indices = node.take(2, max(len(node.inputs), 2))
    axes = [axis for axis, flag in enumerate(node.integers("indices_mask")) if flag]
    return _indexed(emit, x, indices, axes)


@handles("Index", to="Transpose, GatherND", notes="indices are integers")
def index(node: Node, emit: AscendEmitter) -> Tensor:
    """Index(x, indexed_sizes, indexed_strides, indices...): the same; the sizes are 1 for each axis with indices."""
    x, flags, _, *indices = node.take(4, max(len(node.inputs), 4))
    return _indexed(emit, x, indices, _flagged(flags))


@handles("IndexPutV2", to="Transpose, ScatterND, UnsortedSegmentSum", notes="indices are integers")
def index_put(node: Node, emit: AscendEmitter) -> Tensor:
    """IndexPutV2(x, value, indexed_sizes, indexed_strides, indices... | accumulate): x with values at the indices."""
    x, value, flags, _, *indices = node.take(5, max(len(node.inputs), 5))
    axes = _flagged(flags)
    order, places, is_inner = _coordinates(emit, x, indices, axes)
    moved = emit.transpose(x, order)
    own = places.rank - 1
    if is_inner and axes[0]:  # the values have the axes before the indices first, as the result of indexing has
        sizes = emit.shape_of(_indexed(emit, x, indices, axes))
        value = emit.op("Expand", value, sizes, shape=(None,) * (x.rank - len(axes) + own))
        value = emit.transpose(
            value, [*range(axes[0], axes[0] + own), *range(axes[0]), *range(axes[0] + own, value.rank)]
        )
    else:
        value = emit.op("Expand", value, emit.shape_of(emit.op("GatherND", moved, places)))
    if node.flag("accumulate"):
        wide = emit.wide(moved)
        made = scattered(emit, "add", emit.shape_of(moved), places, emit.cast(value, wide.dtype), wide)
        made = emit.cast(made, x.dtype)
    else:
        made = emit.op("ScatterND", moved, places, value, shape=moved.shape)
    return emit.transpose(made, [order.index(axis) for axis in range(x.rank)])


def _flagged(flags: Tensor) -> list[int]:
    """The axes with indices."""
    given = flags.integers("indexed_sizes")
    if not set(given) <= {0, 1}:
        raise Unsupported(f"indexed_sizes {given} are not 0 or 1 for each axis")
    return [axis for axis, flag in enumerate(given) if flag]


def _indexed(emit: AscendEmitter, x: Tensor, indices: list[Tensor], axes: list[int]) -> Tensor:
    order, places, is_inner = _coordinates(emit, x, indices, axes)
    found = emit.op("GatherND", emit.transpose(x, order), places)
    if not is_inner or not axes[0]:
        return found
    first, own = axes[0], places.rank - 1
    rank = x.rank - len(axes) + own
    return emit.transpose(found, [*range(own, own + first), *range(own), *range(own + first, rank)])


def _coordinates(
    emit: AscendEmitter, x: Tensor, indices: list[Tensor], axes: list[int]
) -> tuple[list[int], Tensor, bool]:
    """The axes with those that have indices first, the coordinates in these, and whether they are neighbors."""
    if len(axes) != len(indices) or not axes or axes[-1] >= x.rank:
        raise Unsupported(f"{len(indices)} indices for axes {axes} of {x}")
    if any(tensor.dtype not in (TensorProto.INT32, TensorProto.INT64) for tensor in indices):
        raise Unsupported(f"indices {', '.join(map(str, indices))}: int32 or int64 expected")
    wide = [emit.cast(tensor, TensorProto.INT64) for tensor in indices]
    rank = max(tensor.rank for tensor in wide)
    total = wide[0]
    for tensor in wide[1:]:
        total = emit.op("Add", total, tensor)
    sizes = emit.shape_of(total)
    columns = [
        emit.op("Unsqueeze", emit.op("Expand", tensor, sizes, shape=(None,) * rank), emit.constant([-1]))
        for tensor in wide
    ]
    places = emit.op("Concat", *columns, axis=-1) if len(columns) > 1 else columns[0]
    order = [*axes, *(axis for axis in range(x.rank) if axis not in axes)]
    return order, places, axes == list(range(axes[0], axes[-1] + 1))
