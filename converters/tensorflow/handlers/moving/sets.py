"""tf.raw_ops.Unique, UniqueWithCounts and their V2; ListDiff; DenseToDenseSetOperation and its like, SetSize."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.computed_axes import Results, any_axis
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.writing.coordinates import one_for_each, positions, sparse_rank, valid_indices
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering import uniqueness
from onnx_sparse.converters.writing.partitions import of_rowids

_END = np.iinfo(np.int64).max


@handles("Unique", "UniqueWithCounts", "UniqueV2", "UniqueWithCountsV2", to="Unique", dtypes=("every type",))
def unique(node: Node, emit: TensorFlowEmitter) -> Results:
    """The different elements, or slices along an axis, in the order of their first occurrence."""
    if node["x"].rank == 1 or "axis" not in node.inputs:
        node.disregard("axis")  # a vector has only one, whether it is named or not
        return _unique(node, 0, emit)
    return _unique_slices(node, emit)


@any_axis("axis", "x", results=1)
def _unique_slices(node: Node, emit: TensorFlowEmitter) -> Results:
    axis = node["axis"].integers("axis")
    return _unique(node, node["x"].axis(axis[0]) if axis else 0, emit)


def _unique(node: Node, axis: int, emit: Emitter) -> Results:
    dtype = int(node.attributes.get("out_idx", TensorProto.INT32))
    y, places, counts = uniqueness.unique(emit, node["x"], axis)
    results = (y, emit.cast(places, dtype), emit.cast(counts, dtype))
    return results if "Counts" in node.op_type else results[:2]


@handles("ListDiff", to="Unique", dtypes=("every type",))
def list_difference(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The elements of x that y does not have, and their places in x."""
    x, y = node["x"], node["y"]
    if x.rank != 1 or y.rank != 1:
        raise Unsupported(f"{x} and {y} are not both vectors")
    if x.value is not None and y.value is not None:  # such as the axes of tensordot
        places = np.flatnonzero(~np.isin(x.value, y.value))
        return emit.constant(x.value[places], x.dtype), emit.constant(places, node.dtypes[1])
    both = emit.op("Concat", y, x, axis=0)
    _, first, codes, _ = uniqueness.different(emit, uniqueness.comparable(emit, both), is_sorted=False)
    count = emit.size(y, 0)
    own = emit.op("Slice", codes, count, emit.constant([_END]), emit.constant([0]), shape=x.shape)
    is_new = emit.op("GreaterOrEqual", emit.op("Gather", first, own), count)
    kept = emit.op("Reshape", emit.op("NonZero", is_new), emit.constant([-1]))
    if x.dtype == TensorProto.BFLOAT16:  # whose rows a rule might take by Compress, which ONNX Runtime lacks
        x = emit.cast(x, TensorProto.FLOAT)
    return emit.cast(emit.op("Gather", x, kept), node.dtypes[0]), emit.cast(kept, node.dtypes[1])


_SPARSE_1, _SPARSE_2 = (tuple(f"set{k}_{part}" for part in ("indices", "values", "shape")) for k in (1, 2))
_IN_SETS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "string")


@dataclass(frozen=True)
class _Sets:
    """The elements of several sets: which value belongs to which set, and how many sets there are in each dimension."""

    place: Tensor
    values: Tensor
    sizes: Tensor
    rank: int


@handles("DenseToDenseSetOperation", to="Unique", dtypes=_IN_SETS, ignored=("validate_indices",))
def dense_to_dense(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """A set operation on the rows of two dense tensors."""
    return _combined(node, _rows(node["set1"], emit), _rows(node["set2"], emit), emit)


@handles("DenseToSparseSetOperation", to="Unique", dtypes=_IN_SETS, ignored=("validate_indices",))
def dense_to_sparse(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """A set operation on the rows of a dense and of a sparse tensor."""
    return _combined(node, _rows(node["set1"], emit), _entries(node, _SPARSE_2, emit), emit)


@handles("SparseToSparseSetOperation", to="Unique", dtypes=_IN_SETS, ignored=("validate_indices",))
def sparse_to_sparse(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """A set operation on the rows of two sparse tensors."""
    return _combined(node, _entries(node, _SPARSE_1, emit), _entries(node, _SPARSE_2, emit), emit)


@handles("SetSize", to="Unique", dtypes=_IN_SETS, ignored=("validate_indices",))
def set_size(node: Node, emit: Emitter) -> Tensor:
    """The number of different values in each row."""
    sets = _entries(node, ("set_indices", "set_values", "set_shape"), emit)
    different, _, code, _ = uniqueness.different(emit, uniqueness.comparable(emit, sets.values), is_sorted=True)
    elements, codes = _members(sets, code, different, emit)
    rows = of_rowids(emit.op("Div", elements, codes), _count(sets, emit), emit)
    return emit.cast(emit.op("Reshape", rows.lengths, sets.sizes, allowzero=1), TensorProto.INT32)


def _combined(node: Node, first: _Sets, second: _Sets, emit: Emitter) -> tuple[Tensor, Tensor, Tensor]:
    """The sparse tensor of the results; the values of each set are sorted."""
    values = emit.op("Concat", first.values, second.values, axis=0)
    # Sets are compared by the numbers of their values, in the order of the values.
    different, _, code, _ = uniqueness.different(emit, uniqueness.comparable(emit, values), is_sorted=True)
    past = emit.shape_of(first.values)
    codes_of = (
        emit.op("Slice", code, emit.constant([0]), past),
        emit.op("Slice", code, past, emit.constant([_END])),
    )
    (ours, codes), (theirs, _) = (
        _members(sets, own, different, emit) for sets, own in zip((first, second), codes_of, strict=True)
    )
    operation = node.attributes["set_operation"].decode().lower()
    if operation not in ("a-b", "b-a", "intersection", "union"):
        raise Unsupported(f"the set operation {operation!r} is not known")
    # What is in both occurs twice; what is listed twice for that reason cannot be left if it occurs only once.
    listed = {"a-b": [ours, theirs, theirs], "b-a": [ours, ours, theirs]}.get(operation, [ours, theirs])
    left, _, _, counts = uniqueness.different(emit, emit.op("Concat", *listed, axis=0), is_sorted=True)
    if operation != "union":
        times = emit.constant(2 if operation == "intersection" else 1)
        left = emit.op("Compress", left, emit.op("Equal", counts, times), axis=0)
    rows = of_rowids(emit.op("Div", left, codes), _count(first, emit), emit)
    result = emit.cast(emit.op("Gather", different, emit.op("Mod", left, codes)), values.dtype)
    numbers, place = (emit.op("Unsqueeze", each, emit.constant([1])) for each in (rows.row, rows.place))
    after = emit.constant(np.triu(np.ones((first.rank, first.rank)), 1), TensorProto.BOOL)
    factors = emit.op("Where", after, first.sizes, emit.constant(1))
    one = emit.constant(1)  # there is no set to number if a size is 0, but it must not divide
    strides = emit.op("Max", emit.op("ReduceProd", factors, emit.constant([1]), keepdims=0), one)
    coordinates = emit.op("Mod", emit.op("Div", numbers, strides), emit.op("Max", first.sizes, one))
    shape = emit.op("Concat", first.sizes, rows.longest, axis=0)
    return emit.op("Concat", coordinates, place, axis=1), result, shape


def _members(sets: _Sets, code: Tensor, different: Tensor, emit: Emitter) -> tuple[Tensor, Tensor]:
    """The different elements of all sets, each as the number of its set times the number of codes, plus its code."""
    codes = emit.op("Max", emit.shape_of(different), emit.constant([1]))
    numbered = emit.op("Add", emit.op("Mul", sets.place, codes), code)
    return uniqueness.different(emit, numbered, is_sorted=True)[0], codes


def _count(sets: _Sets, emit: Emitter) -> Tensor:
    """How many sets there are, as a vector of one element."""
    return emit.op("ReduceProd", sets.sizes, emit.constant([0]), keepdims=1)


def _rows(dense: Tensor, emit: Emitter) -> _Sets:
    """Each row of the last dimension as a set."""
    shape, rank = emit.shape_of(dense), dense.rank - 1
    sizes = emit.op("Slice", shape, emit.constant([0]), emit.constant([rank]))
    count = emit.op("ReduceProd", sizes, emit.constant([0]), keepdims=0)
    numbers = emit.op("Range", emit.constant(0), count, emit.constant(1))
    matrix = emit.op("Concat", emit.shape_of(numbers), emit.size(dense, rank), axis=0)
    place = emit.op("Expand", emit.op("Unsqueeze", numbers, emit.constant([1])), matrix)
    flat = emit.constant([-1])
    return _Sets(emit.op("Reshape", place, flat), emit.op("Reshape", dense, flat), sizes, rank)


def _entries(node: Node, names: tuple[str, ...], emit: Emitter) -> _Sets:
    """Each row of the last dimension of a sparse tensor as a set."""
    given, values, shape = (node[name] for name in names)
    rank = sparse_rank(given, shape) - 1
    order = "row_major" if node.attributes.get("validate_indices", True) else "any"
    indices = valid_indices(given, shape, emit, order)
    start, end = emit.constant([0]), emit.constant([rank])
    sizes = emit.op("Slice", shape, start, end)
    leading = emit.op("Slice", indices, start, end, emit.constant([1]))
    return _Sets(positions(leading, sizes, emit), one_for_each(values, indices, emit), sizes, rank)
