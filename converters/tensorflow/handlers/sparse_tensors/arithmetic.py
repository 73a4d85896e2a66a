"""tf.raw_ops that compute with the entries of sparse tensors: products, reductions, sums, SparseSoftmax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.coordinates import (
    column,
    element,
    one_for_each,
    positions,
    sparse_rank,
    valid_indices,
)
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.segment_reductions import reduced_by_segment, scattered
from onnx_sparse.schemas.declaration import HALF_FLOATS

_ORDER_NOTES = "floats are summed in the order of the entries; TensorFlow's order differs"
_Groups = Callable[[Tensor], dict[str, Tensor]]


@handles(
    "SparseTensorDenseMatMul",
    to="UnsortedSegmentSum",
    differs="a product of floats is rounded before it is added; TensorFlow fuses the two",
)
def sparse_tensor_dense_mat_mul(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Each entry's value times a row of b, summed by the rows of a."""
    row, inner = (1, 0) if node.attributes.get("adjoint_a") else (0, 1)
    dense = node["b"]
    if node.attributes.get("adjoint_b"):
        dense = emit.op("Transpose", dense, perm=[1, 0])
    indices = valid_indices(node["a_indices"], node["a_shape"], emit)
    taken = emit.op("Gather", dense, column(indices, inner, emit), axis=0)
    weights = emit.op("Unsqueeze", one_for_each(node["a_values"], indices, emit), emit.constant([1]))
    ids, count = column(indices, row, emit), element(node["a_shape"], row, emit)
    data = emit.op("Mul", taken, weights)
    return emit.domain_op("UnsortedSegmentSum", {"data": data, "segment_ids": ids, "num_segments": count})


@handles("SparseReduceSum", to="UnsortedSegmentSum", differs=_ORDER_NOTES)
@handles("SparseReduceMax", to="UnsortedSegmentMax", differs="NaN propagates")
def sparse_reduce(node: Node, emit: Emitter) -> Tensor:
    """The values, reduced by their coordinates in the remaining dimensions; 0 where there are none."""
    shape, rank, stay = _staying(node)
    group = _groups(node["input_indices"], shape, stay, emit)
    kind, (data, ids, count) = node.op_type.removeprefix("SparseReduce"), group(node["input_values"]).values()
    reduced = reduced_by_segment(emit, kind, data, ids, count)
    if kind == "Max":
        reduced = emit.op("Where", _is_there(node["input_values"], group, emit), reduced, _zero(reduced, emit))
    sizes = emit.op("Gather", shape, emit.constant([*stay]), axis=0)
    if node.attributes.get("keep_dims"):
        kept = emit.constant([axis in stay for axis in range(rank)], TensorProto.BOOL)
        sizes = emit.op("Where", kept, shape, emit.constant(1))
    return emit.op("Reshape", reduced, sizes, allowzero=1)


@handles("SparseReduceSumSparse", to="UnsortedSegmentSum", differs=_ORDER_NOTES)
@handles("SparseReduceMaxSparse", to="UnsortedSegmentMax", differs="NaN propagates")
def sparse_reduce_to_sparse(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same as a sparse tensor, of what has entries."""
    shape, rank, stay = _staying(node)
    places = _groups(node["input_indices"], shape, stay, emit)(node["input_values"])["segment_ids"]
    _, first, which, _ = emit.node("Unique", [places], [TensorProto.INT64] * 4, sorted=1)
    kind = node.op_type.removeprefix("SparseReduce").removesuffix("Sparse")
    count = emit.scalar(emit.shape_of(first))
    values = reduced_by_segment(emit, kind, node["input_values"], which, count)
    indices, kept = emit.op("Gather", node["input_indices"], first, axis=0), emit.constant(stay)
    if node.attributes.get("keep_dims"):
        is_kept = emit.constant([axis in stay for axis in range(rank)], TensorProto.BOOL)
        return (
            emit.op("Where", is_kept, indices, emit.constant(0)),
            values,
            emit.op("Where", is_kept, shape, emit.constant(1)),
        )
    return emit.op("Gather", indices, kept, axis=1), values, emit.op("Gather", shape, kept)


@handles("SparseSoftmax", to="UnsortedSegmentSum", dtypes=("float16", "bfloat16", "float", "double"))
def sparse_softmax(node: Node, emit: Emitter) -> Tensor:
    """The softmax of each row over its entries.

    The model refuses entries in another order: TensorFlow returns the results in row-major order.
    """
    shape, values = node["sp_shape"], node["sp_values"]
    indices = valid_indices(node["sp_indices"], shape, emit, "row_major")
    group = _groups(indices, shape, list(range(sparse_rank(indices, shape) - 1)), emit)
    (largest,) = emit.domain_op("UnsortedSegmentMax", group(values))
    ids = group(values)["segment_ids"]
    powers = emit.op("Exp", emit.op("Sub", values, emit.op("Gather", largest, ids)))
    (sums,) = emit.domain_op("UnsortedSegmentSum", group(powers))
    return emit.op("Div", powers, emit.op("Gather", sums, ids))


@handles(
    "SparseDenseCwiseMul",
    "SparseDenseCwiseDiv",
    "SparseDenseCwiseAdd",
    to="GatherND",
    dtypes=("float16", "bfloat16", "float", "double", "int8", "int16", "int32", "int64", "uint8", "uint16"),
)
def sparse_dense_elementwise(node: Node, emit: Emitter) -> Tensor:
    """Each value combined with the dense tensor's element at its position; dimensions of 1 are broadcast."""
    dense, rank = node["dense"], sparse_rank(node["sp_indices"], node["sp_shape"])
    width = dense.rank
    if width > rank:
        raise Unsupported("dense has more dimensions than the sparse tensor")
    indices, taken = valid_indices(node["sp_indices"], node["sp_shape"], emit), dense
    if width:
        columns = emit.op("Gather", indices, emit.constant([*range(rank - width, rank)]), axis=1)
        is_broadcast = emit.op("Equal", emit.shape_of(dense), emit.constant(1))
        taken = emit.op("GatherND", dense, emit.op("Where", is_broadcast, emit.constant(0), columns))
    values = one_for_each(node["sp_values"], indices, emit)
    return emit.op(node.op_type.removeprefix("SparseDenseCwise"), values, taken)


def _staying(node: Node) -> tuple[Tensor, int, list[int]]:
    """The shape of a sparse tensor, its rank, and the axes that are not reduced."""
    shape, given = node["input_shape"], node["reduction_axes"].value
    rank = sparse_rank(node["input_indices"], shape)
    if given is None:
        raise Unsupported("reduction_axes is not a constant")
    axes = {int(axis) % rank for axis in np.ravel(given)}  # none of them are reduced if there are none
    return shape, rank, [axis for axis in range(rank) if axis not in axes]


def _groups(indices: Tensor, shape: Tensor, stay: list[int], emit: Emitter) -> _Groups:
    """A function from data, one per entry, to the inputs of a reduction by position in some dimensions."""
    sizes = emit.op("Gather", shape, emit.constant([*stay]), axis=0)
    if stay:
        columns = emit.op("Gather", indices, emit.constant([*stay]), axis=1, shape=(None, len(stay)))
        places = positions(valid_indices(columns, sizes, emit), sizes, emit)
    else:
        places = emit.op("Mul", column(indices, 0, emit), emit.constant(0))
    count = emit.op("ReduceProd", sizes, emit.constant([0]), keepdims=0)
    return lambda data: {"data": data, "segment_ids": places, "num_segments": count}


def _is_there(values: Tensor, group: _Groups, emit: Emitter) -> Tensor:
    """Whether each group has an entry."""
    ones = emit.op("Expand", emit.constant(1), emit.shape_of(values))
    (counts,) = emit.domain_op("UnsortedSegmentSum", group(ones))
    return emit.cast(counts, TensorProto.BOOL)


def _zero(tensor: Tensor, emit: Emitter) -> Tensor:
    return emit.like(0, tensor)


@handles(
    "SparseTensorDenseAdd",
    to="UnsortedSegmentSum",
    dtypes=("all numbers",),
    differs="half floats are summed as float32",
)
def sparse_tensor_dense_add(node: Node, emit: Emitter) -> Tensor:
    """The dense tensor with each entry added to the element at its position."""
    dense = node["b"]
    dtype = TensorProto.FLOAT if dense.dtype in HALF_FLOATS else dense.dtype
    indices, values = valid_indices(node["a_indices"], node["a_shape"], emit), emit.cast(node["a_values"], dtype)
    start = emit.cast(dense, dtype)
    return emit.cast(scattered(emit, "add", emit.shape_of(start), indices, values, start), dense.dtype)


@handles("SparseAdd", to="UnsortedSegmentSum", differs="entries that are NaN are kept")
def sparse_add(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The entries of both, summed if they have equal coordinates, without sums closer to 0 than the threshold."""
    indices, sums, counts = _combined("Sum", node, emit)
    limit = emit.cast(node["thresh"], sums.dtype)
    # As in C++: the smallest int8 and int16 have absolute values; those of the smallest int32 and int64 are negative.
    narrow, wide = (TensorProto.INT8, TensorProto.INT16), (TensorProto.INT32, TensorProto.INT64)
    if limit.value is None or limit.value > 0 or sums.dtype in wide:
        compared = TensorProto.INT32 if sums.dtype in narrow else sums.dtype
        near = emit.op("Less", emit.op("Abs", emit.cast(sums, compared)), emit.cast(limit, compared))
        of_two = emit.op("Greater", counts, emit.constant(1))
        kept = emit.op("Not", emit.op("And", near, of_two))
        indices, sums = emit.op("Compress", indices, kept, axis=0), emit.op("Compress", sums, kept, axis=0)
    return indices, sums, node["a_shape"]


@handles("SparseSparseMaximum", to="UnsortedSegmentMax", differs="NaN propagates")
@handles("SparseSparseMinimum", to="UnsortedSegmentMin", differs="NaN propagates")
def sparse_extreme(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The larger or smaller of two entries with equal coordinates; a lone entry is compared with 0."""
    kind = node.op_type.removeprefix("SparseSparse")[:3]
    indices, extremes, counts = _combined(kind, node, emit)
    alone = emit.op("Less", counts, emit.constant(2))
    zero = emit.like(0, extremes)
    # ONNX Runtime's Max and Min lack some integers.
    passed = emit.op("Less" if kind == "Max" else "Greater", extremes, zero)
    return indices, emit.op("Where", emit.op("And", alone, passed), zero, extremes)


def _combined(kind: str, node: Node, emit: Emitter) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct coordinates in row-major order, the reduced value at each, and how many entries it has.

    The model refuses entries in another order, or twice: TensorFlow merges the two as if they were sorted.
    """
    shape = node["a_shape"]
    if not sparse_rank(node["a_indices"], shape):
        raise Unsupported("sparse tensors without dimensions")
    valid = [valid_indices(node[f"{x}_indices"], node[f"{x}_shape"], emit, "row_major") for x in "ab"]
    indices = emit.op("Concat", *valid, axis=0)
    values = emit.op("Concat", node["a_values"], node["b_values"], axis=0)
    place = positions(indices, shape, emit)
    found = emit.node("Unique", [place], [TensorProto.INT64] * 4, sorted=1)
    _, first, which, counts = found
    many = emit.op("Squeeze", emit.shape_of(first), emit.constant([0]))
    return emit.op("Gather", indices, first, axis=0), reduced_by_segment(emit, kind, values, which, many), counts
