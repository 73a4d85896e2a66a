"""tf.raw_ops.SparseAdd, SparseTensorDenseAdd, SparseSparseMaximum, SparseSparseMinimum."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.coordinates import positions, sparse_rank
from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, Unsupported, handles
from onnx_sparse.schemas.declaration import HALF_FLOATS, numpy_dtype

_BOTH = ("a_indices", "a_values", "a_shape", "b_indices", "b_values", "b_shape")


@handles(
    "SparseTensorDenseAdd",
    inputs=("a_indices", "a_values", "a_shape", "b"),
    to="ScatterND",
    dtypes=("all numbers",),
    notes="negative coordinates count from the end, while TensorFlow raises; half floats are summed as float32",
)
def sparse_tensor_dense_add(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """The dense tensor with each entry added to the element at its position."""
    dense = node["b"]
    dtype = TensorProto.FLOAT if dense.dtype in HALF_FLOATS else dense.dtype
    indices, values = emit.cast(node["a_indices"], TensorProto.INT64), emit.cast(node["a_values"], dtype)
    return (emit.cast(emit.like("ScatterND", emit.cast(dense, dtype), indices, values, reduction="add"), dense.dtype),)


@handles("SparseAdd", inputs=(*_BOTH, "thresh"), to="UnsortedSegmentSum", notes="entries that are NaN are kept")
def sparse_add(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """The entries of both, summed if they have equal coordinates, without sums closer to 0 than the threshold."""
    indices, sums, counts = _combined("UnsortedSegmentSum", node, emit)
    limit = node["thresh"]
    if limit.value is None or limit.value > 0:
        near = emit.standard("Less", emit.like("Abs", sums), limit, dtype=TensorProto.BOOL)
        of_two = emit.standard("Greater", counts, emit.integer(1), dtype=TensorProto.BOOL)
        kept = emit.like("Not", emit.like("And", near, of_two))
        indices, sums = emit.ints("Compress", indices, kept, axis=0), emit.like("Compress", sums, kept, axis=0)
    return indices, sums, node["a_shape"]


@handles("SparseSparseMaximum", inputs=_BOTH, to="UnsortedSegmentMax", notes="NaN propagates")
@handles("SparseSparseMinimum", inputs=_BOTH, to="UnsortedSegmentMin", notes="NaN propagates")
def sparse_extreme(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """The larger or smaller of two entries with equal coordinates; a lone entry is compared with 0."""
    kind = node.op_type.removeprefix("SparseSparse")[:3]
    indices, extremes, counts = _combined(f"UnsortedSegment{kind}", node, emit)
    alone = emit.standard("Less", counts, emit.integer(2), dtype=TensorProto.BOOL)
    zero = emit.constant(np.array(0, numpy_dtype(extremes.dtype)))
    # ONNX Runtime's Max and Min lack some integers.
    passed = emit.standard("Less" if kind == "Max" else "Greater", extremes, zero, dtype=TensorProto.BOOL)
    return indices, emit.where(emit.like("And", alone, passed), zero, extremes)


def _combined(reduction: str, node: SourceNode, emit: Emitter) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct coordinates in row-major order, the reduced value at each, and how many entries it has."""
    shape = node["a_shape"]
    rank = sparse_rank(node["a_indices"], shape)
    if not rank:
        raise Unsupported("sparse tensors without dimensions")
    indices = emit.ints("Concat", node["a_indices"], node["b_indices"], axis=0)
    values = emit.like("Concat", node["a_values"], node["b_values"], axis=0)
    place = positions(indices, shape, rank, emit)
    found = emit.node("", "Unique", (place,), (TensorProto.INT64,) * 4, {"sorted": 1})
    _, first, which, counts = found
    many = emit.ints("Squeeze", emit.ints("Shape", first), emit.integers(0))
    (reduced,) = emit.domain_op(reduction, {"data": values, "segment_ids": which, "num_segments": many})
    return emit.ints("Gather", indices, first, axis=0), reduced, counts
