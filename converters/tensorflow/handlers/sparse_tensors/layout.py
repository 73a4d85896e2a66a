"""tf.raw_ops.SparseReorder, SparseReshape, SparseToDense, SparseSlice and others: entries are moved, not computed."""

from __future__ import annotations

import itertools

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.coordinates import (
    dimensions,
    in_row_major_order,
    one_for_each,
    valid_indices,
)
from onnx_sparse.converters.writing.emitter import Emitter

_ANYTHING = ("every type",)


@handles("SparseReorder", to="TopK", dtypes=_ANYTHING)
def sparse_reorder(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The entries in row-major order."""
    indices, shape = node["input_indices"], node["input_shape"]
    values = one_for_each(node["input_values"], indices, emit)
    return in_row_major_order(indices, values, shape, emit)


@handles("SparseToDense", to="ScatterND", dtypes=_ANYTHING, ignored=("validate_indices",))
def sparse_to_dense(node: Node, emit: Emitter) -> Tensor:
    """The default everywhere, with the values scattered into it."""
    indices = emit.cast(node["sparse_indices"], TensorProto.INT64)
    shape = emit.cast(node["output_shape"], TensorProto.INT64)
    values, default = node["sparse_values"], node["default_value"]
    rank = node["sparse_indices"].rank
    if rank < 2:
        indices = emit.op("Reshape", indices, emit.constant([-1, 1]), shape=(None, 1))
    order = "row_major" if node.attributes.get("validate_indices", True) else "any"
    indices = valid_indices(indices, shape, emit, order)
    if values.rank == 0:
        entries = emit.size(indices, 0)
        values = emit.op("Expand", values, entries)
    return emit.op("ScatterND", emit.op("Expand", default, shape), indices, values)


@handles("SparseSlice", to="Compress", dtypes=_ANYTHING)
def sparse_slice(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The entries inside the slice, with coordinates from its start."""
    indices, start = node["indices"], node["start"]
    moved = emit.op("Sub", indices, start)
    at_least = emit.op("GreaterOrEqual", moved, emit.constant(0))
    below = emit.op("Less", moved, node["size"])
    inside = emit.cast(emit.op("And", at_least, below), TensorProto.INT32)
    everywhere = emit.op("ReduceMin", inside, emit.constant([1]), keepdims=0)
    kept = emit.cast(everywhere, TensorProto.BOOL)
    rest = emit.op("Sub", node["shape"], start)
    size = emit.op("Max", emit.op("Min", node["size"], rest), emit.constant(0))
    values = emit.op("Compress", one_for_each(node["values"], indices, emit), kept, axis=0)
    return emit.op("Compress", moved, kept, axis=0), values, size


@handles(
    "SparseSplit",
    to="Compress",
    dtypes=_ANYTHING,
    differs="a dimension smaller than the number of parts has empty parts; TensorFlow raises",
)
def sparse_split(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The entries of each part, with coordinates from its start; the first parts are longer by 1 if there is a rest."""
    shape, count = node["shape"], int(node.attributes["num_split"])
    indices = valid_indices(node["indices"], shape, emit)
    values = one_for_each(node["values"], indices, emit)
    rank, numbers = dimensions(indices, shape, emit)
    along = emit.op("Mod", emit.op("Reshape", node["split_dim"], emit.constant([1])), rank)
    unit = emit.cast(emit.op("Equal", numbers, along), TensorProto.INT64)
    place = emit.op("ReduceSum", emit.op("Mul", indices, unit), emit.constant([1]), keepdims=0)
    length = emit.op("Gather", shape, along)
    size, rest = (emit.op(op_type, length, emit.constant(count)) for op_type in ("Div", "Mod"))
    others = emit.op("Mul", shape, emit.op("Sub", emit.constant(1), unit))
    ends = [emit.constant([0])]
    for k in range(1, count + 1):
        ends.append(emit.op("Add", emit.op("Mul", size, emit.constant(k)), emit.op("Min", rest, emit.constant(k))))
    parts = []
    for start, end in itertools.pairwise(ends):
        kept = emit.op("And", emit.op("GreaterOrEqual", place, start), emit.op("Less", place, end))
        moved = emit.op("Sub", indices, emit.op("Mul", unit, start))
        new_shape = emit.op("Add", others, emit.op("Mul", unit, emit.op("Sub", end, start)))
        parts.append((emit.op("Compress", moved, kept, axis=0), emit.op("Compress", values, kept, axis=0), new_shape))
    return tuple(result for kind in zip(*parts, strict=True) for result in kind)


@handles("SparseConcat", to="Concat", dtypes=_ANYTHING)
def sparse_concat(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The entries of all tensors, shifted along the dimension, in row-major order."""
    indices, shapes = node.all("indices"), node.all("shapes")
    rank, numbers = dimensions(indices[0], shapes[0], emit)
    along = emit.op("Mod", emit.constant(node.attributes["concat_dim"]), rank)
    unit = emit.cast(emit.op("Equal", numbers, along), TensorProto.INT64)
    moved, offset = [indices[0]], emit.op("Mul", shapes[0], unit)
    for entries, shape in zip(indices[1:], shapes[1:], strict=True):
        moved.append(emit.op("Add", entries, offset))
        offset = emit.op("Add", offset, emit.op("Mul", shape, unit))
    # The offset is the total length so far along the dimension, and 0 along the others.
    others = emit.op("Sub", emit.constant(1), unit)
    shape = emit.op("Add", emit.op("Mul", shapes[0], others), offset)
    together = emit.op("Concat", *moved, axis=0)
    pairs = zip(node.all("values"), indices, strict=True)
    values = emit.op("Concat", *(one_for_each(part, entries, emit) for part, entries in pairs), axis=0)
    return (*in_row_major_order(together, values, shape, emit), shape)


@handles("SparseFillEmptyRows", notes="attribute order is row_stable: TensorFlow sorts by row only")
def sparse_fill_empty_rows(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """All four outputs, in TensorFlow's order of entries."""
    return emit.domain_op("SparseFillEmptyRows", node.inputs, {"order": "row_stable"})


@handles("RaggedFillEmptyRows", differs="with nrows = 0 the row ids have shape (0,); TensorFlow's have (0, 1)")
def ragged_fill_empty_rows(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator under the same names."""
    return emit.domain_op("RaggedFillEmptyRows", node.inputs)


@handles("SparseReshape")
def sparse_reshape(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator under the same names."""
    return emit.domain_op("SparseReshape", node.inputs)
