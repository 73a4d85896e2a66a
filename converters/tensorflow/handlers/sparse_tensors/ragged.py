"""tf.raw_ops.RaggedTensorToTensor, RaggedTensorToSparse, RaggedGather, RaggedRange: also of nothing."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.coordinates import valid_indices
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import (
    Partition,
    coordinates_of,
    dense_shape_of,
    of_nested_splits,
    of_rowids,
    of_splits,
    splits_of,
)
from onnx_sparse.schemas.declaration import FLOATS

_ANYTHING = ("every type",)


@handles("RaggedTensorToTensor", to="ScatterND", dtypes=_ANYTHING)
def ragged_tensor_to_tensor(node: Node, emit: Emitter) -> Tensor:
    """The default everywhere, overwritten with the values that are inside the shape."""
    values, given = node["values"], node["shape"]
    kinds = [kind.decode() for kind in node.attributes["row_partition_types"]]
    tensors = node.all("row_partition_tensors")
    if set(kinds) == {"ROW_SPLITS"}:
        partitions = of_nested_splits(tensors, values, emit)
    else:
        partitions = _of_kinds(kinds, tensors, values, emit)
    coordinates, shape = coordinates_of(partitions, emit), dense_shape_of(partitions, emit)
    if given.rank and (given.value is None or (given.value >= 0).any()):
        wanted = emit.cast(given, TensorProto.INT64)
        wanted = emit.op("Slice", wanted, emit.constant([0]), emit.constant([len(partitions) + 1]))
        free = emit.op("Less", wanted, emit.constant(0))
        shape = emit.op("Where", free, shape, wanted)
        below = emit.cast(emit.op("Less", coordinates, shape), TensorProto.INT32)
        kept = emit.cast(emit.op("ReduceMin", below, emit.constant([1]), keepdims=0), TensorProto.BOOL)
        coordinates = emit.op("Compress", coordinates, kept, axis=0)
        values = emit.op("Compress", values, kept, axis=0)
    if not _is_vector(node["values"]):
        inner = emit.op("Slice", emit.shape_of(values), emit.constant([1]), emit.constant([np.iinfo(np.int64).max]))
        shape = emit.op("Concat", shape, inner, axis=0)
    return emit.op("ScatterND", emit.op("Expand", node["default_value"], shape), coordinates, values)


def _of_kinds(kinds: list[str], tensors: list[Tensor], values: Tensor, emit: Emitter) -> list[Partition]:
    """A Partition from each tensor of row splits or row ids, the outermost first."""
    rows, partitions = None, []
    for k, (kind, tensor) in enumerate(zip(kinds, tensors, strict=True)):
        if kind == "FIRST_DIM_SIZE" and k == 0:
            rows = emit.op("Reshape", emit.cast(tensor, TensorProto.INT64), emit.constant([1]))
        elif kind == "ROW_SPLITS":
            count = None  # row ids below say of no number of rows whether it is theirs
            if k + 1 == len(kinds):
                count = emit.size(values, 0)
            elif kinds[k + 1] == "ROW_SPLITS":
                count = emit.op("Sub", emit.shape_of(tensors[k + 1]), emit.constant([1]))
            partitions.append(of_splits(tensor, emit, count))
            rows = emit.op("Gather", emit.cast(tensor, TensorProto.INT64), emit.constant([-1]))
        elif kind == "VALUE_ROWIDS" and rows is not None:
            partitions.append(of_rowids(tensor, rows, emit))
            rows = emit.shape_of(tensor)
        else:
            raise Unsupported(f"row partitions of type {', '.join(kinds)}; supported are ROW_SPLITS and VALUE_ROWIDS")
    return partitions


@handles("RaggedTensorToSparse", to="CumSum", dtypes=_ANYTHING)
def ragged_tensor_to_sparse(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The coordinates of the values, which are unchanged, and of their elements where they are rows themselves."""
    values = node["rt_dense_values"]
    partitions = of_nested_splits(node.all("rt_nested_splits"), values, emit)
    rows, shape = coordinates_of(partitions, emit), dense_shape_of(partitions, emit)
    # An unknown rank is that of gathered rows, of which only those of vectors are known.
    if values.shape is None or _is_vector(values):
        return rows, values, shape
    sizes = emit.shape_of(values)
    every = emit.op("Transpose", emit.op("NonZero", emit.op("Expand", emit.constant(1), sizes)), perm=[1, 0])
    one, last = emit.constant([1]), emit.constant([values.rank])
    row = emit.op("Gather", every, emit.constant(0), axis=1)
    within = emit.op("Slice", every, one, last, one)
    return (
        emit.op("Concat", emit.op("Gather", rows, row, axis=0), within, axis=1),
        emit.op("Reshape", values, emit.constant([-1])),
        emit.op("Concat", shape, emit.op("Slice", sizes, one, last), axis=0),
    )


@handles("RaggedGather", to="Gather", dtypes=_ANYTHING)
def ragged_gather(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Rows of a ragged tensor, which may be nested; each dimension of the indices but the last is one of the result."""
    indices, nested = emit.cast(node["indices"], TensorProto.INT64), node.all("params_nested_splits")
    shape = emit.shape_of(indices)
    partitions = of_nested_splits(nested, node["params_dense_values"], emit)
    places = emit.op("Reshape", indices, emit.constant([-1, 1]), shape=(None, 1))
    places = valid_indices(places, partitions[0].rows, emit)
    taken, splits = emit.op("Reshape", places, emit.constant([-1])), []
    for depth in range(1, node["indices"].rank):
        outer = emit.op("Slice", shape, emit.constant([0]), emit.constant([depth]))
        count = emit.op("ReduceProd", outer, emit.constant([0]), keepdims=0)
        numbers = emit.op("Range", emit.constant(0), emit.op("Add", count, emit.constant(1)), emit.constant(1))
        splits.append(emit.op("Mul", numbers, emit.op("Gather", shape, emit.constant(depth))))
    for rows in partitions:
        partition = of_splits(splits_of(emit.op("Gather", rows.lengths, taken), emit), emit)
        splits.append(partition.splits)
        starts = emit.op("Gather", emit.op("Slice", rows.splits, emit.constant([0]), emit.constant([-1])), taken)
        taken = emit.op("Add", emit.op("Gather", starts, partition.row), partition.place)
    if not node["indices"].rank:
        del splits[0]  # a scalar takes one row, which is no longer one of several
    values = emit.op("Gather", node["params_dense_values"], taken, axis=0)
    return (*(emit.cast(each, nested[0].dtype) for each in splits), values)


@handles("RaggedRange", to="CumSum", dtypes=("bfloat16", "float", "double", "int32", "int64"))
def ragged_range(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """A row of numbers for each start, limit and step; a scalar serves all rows."""
    starts, limits, steps = (node[name] for name in ("starts", "limits", "deltas"))
    if not any(tensor.rank for tensor in (starts, limits, steps)):
        starts = emit.op("Unsqueeze", starts, emit.constant([0]))
    splits = splits_of(_lengths(starts, limits, steps, emit), emit)
    partition = of_splits(splits, emit)
    firsts, by = (
        emit.op("Gather", emit.op("Expand", tensor, partition.rows), partition.row) for tensor in (starts, steps)
    )
    numbers = emit.op("Add", firsts, emit.op("Mul", emit.cast(partition.place, starts.dtype), by))
    return emit.cast(splits, int(node.attributes.get("Tsplits", TensorProto.INT64))), numbers


def _lengths(starts: Tensor, limits: Tensor, steps: Tensor, emit: Emitter) -> Tensor:
    """How many numbers there are from starts to limits."""
    if starts.dtype not in FLOATS:  # whose distances may leave int32
        starts, limits, steps = map(emit.int64, (starts, limits, steps))
    far, one = emit.op("Sub", limits, starts), steps.value is not None and bool((steps.value == 1).all())
    if starts.dtype in FLOATS:
        counts = emit.op("Ceil", emit.op("Div", far, steps))
        return emit.op("Max", emit.cast(counts, TensorProto.INT64), emit.constant(0))
    # Limits that no step leads to may be farther away than the type counts.
    is_there = emit.op("Less", starts, limits)
    if one:
        counts = far
    else:
        is_there = emit.op("Equal", is_there, emit.op("Greater", steps, emit.constant(0)))
        # The distance by which the last step overshoots the limit.
        missing = emit.op("Mod", emit.op("Neg", far), steps)
        counts = emit.op("Div", emit.op("Add", far, missing), steps)
    return emit.op("Where", is_there, counts, emit.constant(0))


def _is_vector(values: Tensor) -> bool:
    return values.shape is not None and len(values.shape) == 1
