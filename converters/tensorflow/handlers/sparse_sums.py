"""tf.raw_ops.SparseAdd, SparseTensorDenseAdd, SparseSparseMaximum, SparseSparseMinimum."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.coordinates import positions, sparse_rank, valid_indices
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.segment_reductions import reduced_by_segment, scattered
from onnx_sparse.schemas.declaration import HALF_FLOATS

_BOTH = ("a_indices", "a_values", "a_shape", "b_indices", "b_values", "b_shape")


@handles(
    "SparseTensorDenseAdd",
    inputs=("a_indices", "a_values", "a_shape", "b"),
    to="UnsortedSegmentSum",
    dtypes=("all numbers",),
    differs="half floats are summed as float32",
)
def sparse_tensor_dense_add(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The dense tensor with each entry added to the element at its position."""
    dense = node["b"]
    dtype = TensorProto.FLOAT if dense.dtype in HALF_FLOATS else dense.dtype
    indices, values = valid_indices(node["a_indices"], node["a_shape"], emit), emit.cast(node["a_values"], dtype)
    start = emit.cast(dense, dtype)
    return (emit.cast(scattered(emit, "add", emit.shape_of(start), indices, values, start), dense.dtype),)


@handles("SparseAdd", inputs=(*_BOTH, "thresh"), to="UnsortedSegmentSum", differs="entries that are NaN are kept")
def sparse_add(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The entries of both, summed if they have equal coordinates, without sums closer to 0 than the threshold."""
    indices, sums, counts = _combined("Sum", node, [node["a_indices"], node["b_indices"]], emit)
    limit = node["thresh"]
    if limit.value is None or limit.value > 0:
        near = emit.op("Less", emit.op("Abs", sums), limit)
        of_two = emit.op("Greater", counts, emit.constant(1))
        kept = emit.op("Not", emit.op("And", near, of_two))
        indices, sums = emit.op("Compress", indices, kept, axis=0), emit.op("Compress", sums, kept, axis=0)
    node.disregard("b_shape")  # which must be the same
    return indices, sums, node["a_shape"]


@handles("SparseSparseMaximum", inputs=_BOTH, to="UnsortedSegmentMax", differs="NaN propagates")
@handles("SparseSparseMinimum", inputs=_BOTH, to="UnsortedSegmentMin", differs="NaN propagates")
def sparse_extreme(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The larger or smaller of two entries with equal coordinates; a lone entry is compared with 0."""
    kind = node.op_type.removeprefix("SparseSparse")[:3]
    valid = [valid_indices(node[f"{x}_indices"], node[f"{x}_shape"], emit) for x in "ab"]
    indices, extremes, counts = _combined(kind, node, valid, emit)
    alone = emit.op("Less", counts, emit.constant(2))
    zero = emit.like(0, extremes)
    # ONNX Runtime's Max and Min lack some integers.
    passed = emit.op("Less" if kind == "Max" else "Greater", extremes, zero)
    return indices, emit.op("Where", emit.op("And", alone, passed), zero, extremes)


def _combined(kind: str, node: Node, coordinates: list[Tensor], emit: Emitter) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct coordinates in row-major order, the reduced value at each, and how many entries it has."""
    shape = node["a_shape"]
    rank = sparse_rank(node["a_indices"], shape)
    if not rank:
        raise Unsupported("sparse tensors without dimensions")
    indices = emit.op("Concat", *coordinates, axis=0)
    values = emit.op("Concat", node["a_values"], node["b_values"], axis=0)
    place = positions(indices, shape, rank, emit)
    found = emit.node("Unique", [place], [TensorProto.INT64] * 4, sorted=1)
    _, first, which, counts = found
    many = emit.op("Squeeze", emit.shape_of(first), emit.constant([0]))
    return emit.op("Gather", indices, first, axis=0), reduced_by_segment(emit, kind, values, which, many), counts
