"""GE's operators of sparse features, which are those of this project's domain under TensorFlow's and torch's names."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.searching import count_below
from onnx_sparse.schemas.declaration import DType

_INDICES = (TensorProto.INT32, TensorProto.INT64)
_SPARSE = {f"SparseSegment{kind}": f"EmbeddingSegments{kind}" for kind in ("Sum", "Mean", "SqrtN")}
_SEGMENT = {f"Segment{kind}": f"Segment{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod")}
_UNSORTED = {f"UnsortedSegment{kind}": f"UnsortedSegment{kind}" for kind in ("Sum", "Max", "Min", "Prod")}
_EXTREMES = ("SegmentMax", "SegmentMin")
_NAN = "NaN propagates, from every position of a segment"
_UNSORTED_D = {f"{name}D": target for name, target in _UNSORTED.items()}
_BAGS = {"sum": "EmbeddingBagOffsetsSum", "mean": "EmbeddingBagOffsetsMean", "max": "EmbeddingBagOffsetsMax"}


def _of_one_type(emit: AscendEmitter, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Index tensors as int32, or as int64 if one of them is not int32."""
    if any(tensor.dtype not in _INDICES for tensor in tensors):
        raise Unsupported(f"{', '.join(map(str, tensors))}: int32 or int64 expected")
    wide = any(tensor.dtype == TensorProto.INT64 for tensor in tensors)
    return tuple(emit.cast(tensor, TensorProto.INT64 if wide else TensorProto.INT32) for tensor in tensors)


@handles("SparseFillEmptyRows", to="SparseFillEmptyRows")
def sparse_fill_empty_rows(node: Node, emit: AscendEmitter) -> Results:
    """SparseFillEmptyRows(indices, values, dense_shape, default_value)."""
    indices, values, shape, default = node.take(4)
    indices, shape = _of_one_type(emit, indices, shape)
    inputs = {"values": values, "dense_shape": shape, "indices": indices, "default_value": emit.scalar(default)}
    return emit.domain_op("SparseFillEmptyRows", inputs, {"order": "row_stable"})


@handles("RaggedFillEmptyRows", to="RaggedFillEmptyRows")
def ragged_fill_empty_rows(node: Node, emit: AscendEmitter) -> Results:
    """RaggedFillEmptyRows(value_rowids, values, nrows, default_value)."""
    rowids, values, rows, default = node.take(4)
    inputs = {"value_rowids": rowids, "values": values, "nrows": rows, "default_value": emit.scalar(default)}
    return emit.domain_op("RaggedFillEmptyRows", inputs)


@handles(*_SPARSE, to=_SPARSE)
def sparse_segment(node: Node, emit: AscendEmitter) -> Results:
    """SparseSegmentSum(x, indices, segment_ids) and similar: rows of x, reduced by sorted ids; empty segments are 0."""
    x, indices, segments = node.take(3)
    indices, segments = _of_one_type(emit, indices, segments)
    inputs = {"emb_table": x, "indices": indices, "segment_ids": segments, "num_segments": _count(emit, segments)}
    return emit.domain_op(_SPARSE[node.op_type], inputs)


def _count(emit: AscendEmitter, segments: Tensor) -> Tensor:
    """The number of segments of sorted ids: the last of them and one more, 0 without ids."""
    zero = emit.reshape(emit.like(-1, segments), [1])
    longer = emit.op("Concat", zero, segments, shape=(None,), axis=0)
    last = emit.op("Gather", longer, emit.constant(-1), shape=(), axis=0)
    return emit.op("Add", last, emit.like(1, segments))


@handles(*(name for name in _SEGMENT if name not in _EXTREMES))
@handles(*_EXTREMES, differs=_NAN)
def segment(node: Node, emit: AscendEmitter) -> Results:
    """SegmentSum(x, segment_ids) and similar, by sorted ids; an empty segment is 0, and 1 of a product."""
    x, segments = node.take(2)
    (segments,) = _of_one_type(emit, segments)
    attributes = {"fill_mode": "ZERO"} if node.op_type in _EXTREMES else {}
    return emit.domain_op(_SEGMENT[node.op_type], {"data": x, "segment_ids": segments}, attributes)


_ANY_ORDER: dict[str, Any] = {
    "notes": "ids that are negative are dropped, other ids out of range are an error",
    "ignored": ("check_ids",),  # they are always checked
    "defaults": {"is_preprocessed": False},
}


@handles("UnsortedSegmentSum", "UnsortedSegmentProd", **_ANY_ORDER)
@handles("UnsortedSegmentMax", "UnsortedSegmentMin", differs=_NAN, **_ANY_ORDER)
def unsorted_segment(node: Node, emit: AscendEmitter) -> Results:
    """UnsortedSegmentSum(x, segment_ids, num_segments) and similar; a maximum of nothing is the type's lowest."""
    x, segments, count = node.take(3)
    (segments,), (count,) = _of_one_type(emit, segments), _of_one_type(emit, count)
    inputs = {"data": x, "segment_ids": segments, "num_segments": emit.scalar(count)}
    return emit.domain_op(_UNSORTED[node.op_type], inputs)


@handles(*_UNSORTED_D, to=_UNSORTED_D)
def unsorted_segment_d(node: Node, emit: AscendEmitter) -> Results:
    """UnsortedSegmentSumD(x, segment_ids | num_segments) and similar."""
    x, segments = node.take(2)
    (segments,) = _of_one_type(emit, segments)
    count = emit.constant(node.integer("num_segments"))
    inputs = {"data": x, "segment_ids": segments, "num_segments": count}
    return emit.domain_op(_UNSORTED[node.op_type.removesuffix("D")], inputs)


@handles("SegmentMaxD", to="SegmentMax")
def segment_max_d(node: Node, emit: AscendEmitter) -> Results:
    """SegmentMaxD(x | segment_ids)."""
    (x,) = node.take(1)
    segments = emit.constant(node.integers("segment_ids"))
    return emit.domain_op("SegmentMax", {"data": x, "segment_ids": segments}, {"fill_mode": "ZERO"})


@handles(
    "EmbeddingBag",
    to=", ".join(_BAGS.values()),
    notes="without the results for the gradient",
    ignored=("scale_grad_by_freq", "sparse"),  # of the gradient
)
def embedding_bag(node: Node, emit: AscendEmitter) -> Results:
    """EmbeddingBag(weight, indices, offsets, per_sample_weights | mode, include_last_offset, padding_idx)."""
    (weight, indices), (offsets, weights) = node.optional(2, 4)
    mode = str(node.attributes.get("mode", "mean"))
    if mode not in _BAGS:
        raise Unsupported(f"mode {mode} is none of {', '.join(_BAGS)}")
    if weights is not None and mode != "sum":
        raise Unsupported("per_sample_weights are only for sums")
    last = "true" if node.flag("include_last_offset") else "false"
    if offsets is None:  # each row of a matrix of indices is a bag
        if indices.rank != 2:
            raise Unsupported(f"{indices} without offsets; [bags, ids] expected")
        bags, size = (emit.scalar(emit.size(indices, axis)) for axis in (0, 1))
        numbers = emit.op("Range", emit.constant(0), bags, emit.constant(1))
        offsets = emit.op("Mul", numbers, size)
        flat = emit.constant([-1])
        indices = emit.op("Reshape", indices, flat)
        weights = None if weights is None else emit.op("Reshape", weights, flat)
        last = "false"
    indices, offsets = _of_one_type(emit, indices, offsets)
    padding = node.integer("padding_idx", -1)
    inputs = {
        "emb_table": weight,
        "indices": indices,
        "offsets": offsets,
        "padding_index": None if padding < 0 else emit.like(padding, indices),
        **({"per_sample_weights": weights} if weights is not None else {}),
    }
    return emit.domain_op(_BAGS[mode], inputs, {"include_last_offset": last})


@handles("SparseReshape", to="SparseReshape")
def sparse_reshape(node: Node, emit: AscendEmitter) -> Results:
    """SparseReshape(indices, shape, new_shape)."""
    names = ("input_indices", "input_shape", "new_shape")
    wide = {name: emit.cast(t, TensorProto.INT64) for name, t in zip(names, node.take(3), strict=True)}
    dtype = node.inputs[0].dtype if node.inputs[0] is not None else TensorProto.INT64
    return tuple(emit.cast(result, dtype) for result in emit.domain_op("SparseReshape", wide))


@handles("SparseToDense", to="Expand, ScatterND")
def sparse_to_dense(node: Node, emit: AscendEmitter) -> Tensor:
    """SparseToDense(indices, output_shape, values, default_value)."""
    indices, shape, values, default = node.take(4)
    where, size = (emit.cast(tensor, TensorProto.INT64) for tensor in (indices, shape))
    if indices.rank < 2:
        where = emit.op("Reshape", where, emit.constant([-1, 1]), shape=(None, 1))
    if values.rank == 0:
        count = emit.op("Gather", emit.shape_of(where), emit.constant([0]), shape=(1,), axis=0)
        values = emit.op("Expand", values, count, shape=(None,))
    known = tuple(shape.integers("output_shape")) if shape.value is not None else _described(node)
    everywhere = emit.op("Expand", emit.scalar(default), size, shape=known)
    return emit.op("ScatterND", everywhere, where, values, shape=known)


def _described(node: Node) -> tuple[int | None, ...] | None:
    return node.results[0].shape if node.results else None


@handles("StringToHashBucketFast", to="StringToHashBucketFast")
def string_to_hash_bucket_fast(node: Node, emit: AscendEmitter) -> Results:
    """StringToHashBucketFast(x | num_buckets)."""
    (x,) = node.take(1)
    count = emit.constant(node.integer("num_buckets", 1))
    return emit.domain_op("StringToHashBucketFast", {"input": x, "num_buckets": count})


@handles("Bucketize", to="Less, ReduceSum")
def bucketize(node: Node, emit: AscendEmitter) -> Tensor:
    """Bucketize(x | boundaries, dtype, right): the number of boundaries at most x, or with right = false below x."""
    (x,) = node.take(1)
    bounds = node.attributes.get("boundaries")
    values = bounds if isinstance(bounds, list) else [] if bounds is None else [bounds]
    if not all(isinstance(value, int | float) for value in values):
        raise Unsupported("attribute boundaries is not a list of numbers")
    dtype: DType = ACL.get(node.integer("dtype", 3), TensorProto.INT32)
    if not values:
        zero = emit.constant(0, dtype)
        return emit.op("Expand", zero, emit.shape_of(x), shape=x.shape)
    limits, wide = emit.constant(np.array(values, np.float64)), emit.cast(x, TensorProto.DOUBLE)
    return count_below(emit, limits, wide, or_equal=node.flag("right", True), dtype=dtype)
