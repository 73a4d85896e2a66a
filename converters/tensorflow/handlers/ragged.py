"""tf.raw_ops.RaggedTensorToTensor, RaggedTensorToSparse, RaggedRange: also without values and without rows."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.partitions import Partition, of_rowids, of_splits, splits_of
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, Unsupported, handles
from onnx_sparse.schemas.declaration import FLOATS

_ANYTHING = ("every type",)


@handles(
    "RaggedTensorToTensor",
    inputs=("shape", "values", "default_value", "row_partition_tensors*"),
    to="ScatterND",
    dtypes=_ANYTHING,
)
def ragged_tensor_to_tensor(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """The default everywhere, overwritten with the values that are inside the shape."""
    values, given = node["values"], node["shape"]
    kinds = [kind.decode() for kind in node.attributes["row_partition_types"]]
    tensors = node.all("row_partition_tensors")
    if set(kinds) == {"ROW_SPLITS"}:
        partitions = [of_splits(splits, emit) for splits in tensors]
    elif kinds[0] == "FIRST_DIM_SIZE" and set(kinds[1:]) == {"VALUE_ROWIDS"}:
        rows = emit.ints("Reshape", emit.cast(tensors[0], TensorProto.INT64), emit.integers(1))
        partitions = []
        for rowids in tensors[1:]:
            partitions.append(of_rowids(rowids, rows, emit))
            rows = emit.ints("Shape", rowids)
    else:
        raise Unsupported(f"rows are given as {', '.join(kinds)}; ROW_SPLITS or VALUE_ROWIDS are converted")
    coordinates, shape = _coordinates(partitions, emit), _dense_shape(partitions, emit)
    if given.known_rank("shape") and (given.value is None or (given.value >= 0).any()):
        wanted = emit.cast(given, TensorProto.INT64)
        wanted = emit.ints("Slice", wanted, emit.integers(0), emit.integers(len(partitions) + 1))
        free = emit.standard("Less", wanted, emit.integer(0), dtype=TensorProto.BOOL)
        shape = emit.ints("Where", free, shape, wanted)
        below = emit.cast(emit.standard("Less", coordinates, shape, dtype=TensorProto.BOOL), TensorProto.INT32)
        kept = emit.cast(emit.like("ReduceMin", below, emit.integers(1), keepdims=0), TensorProto.BOOL)
        coordinates = emit.ints("Compress", coordinates, kept, axis=0)
        values = emit.like("Compress", values, kept, axis=0)
    if not _is_vector(node["values"]):
        inner = emit.ints("Slice", emit.ints("Shape", values), emit.integers(1), emit.integers(np.iinfo(np.int64).max))
        shape = emit.ints("Concat", shape, inner, axis=0)
    return (emit.like("ScatterND", emit.like("Expand", node["default_value"], shape), coordinates, values),)


@handles("RaggedTensorToSparse", inputs=("rt_nested_splits*", "rt_dense_values"), to="CumSum", dtypes=_ANYTHING)
def ragged_tensor_to_sparse(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """The coordinates of the values; the values themselves are unchanged."""
    values = node["rt_dense_values"]
    # An unknown rank is that of gathered rows, of which tf2onnx converts only those of vectors.
    if values.shape is not None and not _is_vector(values):
        raise Unsupported("values of more than one dimension")
    partitions = [of_splits(splits, emit) for splits in node.all("rt_nested_splits")]
    return _coordinates(partitions, emit), values, _dense_shape(partitions, emit)


@handles(
    "RaggedRange",
    inputs=("starts", "limits", "deltas"),
    to="CumSum",
    dtypes=("bfloat16", "float", "double", "int32", "int64"),
)
def ragged_range(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """A row of numbers for each start, limit and step; a scalar serves all rows."""
    starts, limits, steps = (node[name] for name in ("starts", "limits", "deltas"))
    if not any(tensor.known_rank("starts") for tensor in (starts, limits, steps)):
        starts = emit.like("Unsqueeze", starts, emit.integers(0))
    splits = splits_of(_lengths(starts, limits, steps, emit), emit)
    partition = of_splits(splits, emit)
    firsts, by = (
        emit.like("Gather", emit.like("Expand", tensor, partition.rows), partition.row) for tensor in (starts, steps)
    )
    numbers = emit.like("Add", firsts, emit.like("Mul", emit.cast(partition.place, starts.dtype), by))
    return emit.cast(splits, int(node.attributes.get("Tsplits", TensorProto.INT64))), numbers


def _lengths(starts: Tensor, limits: Tensor, steps: Tensor, emit: Emitter) -> Tensor:
    """How many numbers there are from starts to limits."""
    far, one = emit.like("Sub", limits, starts), steps.value is not None and bool((steps.value == 1).all())
    if starts.dtype in FLOATS:
        counts = emit.like("Ceil", emit.like("Div", far, steps))
    elif one:
        counts = far
    else:
        # The distance by which the last step overshoots the limit.
        missing = emit.like("Mod", emit.like("Neg", far), steps)
        counts = emit.like("Div", emit.like("Add", far, missing), steps)
    return emit.ints("Max", emit.cast(counts, TensorProto.INT64), emit.integer(0))


def _coordinates(partitions: list[Partition], emit: Emitter) -> Tensor:
    """The coordinates of the values in the dense tensor."""
    columns = emit.ints("Unsqueeze", partitions[0].row, emit.integers(1))
    for depth, partition in enumerate(partitions):
        if depth:
            columns = emit.ints("Gather", columns, partition.row, axis=0)
        columns = emit.ints("Concat", columns, emit.ints("Unsqueeze", partition.place, emit.integers(1)), axis=1)
    return columns


def _is_vector(values: Tensor) -> bool:
    return values.shape is not None and len(values.shape) == 1


def _dense_shape(partitions: list[Partition], emit: Emitter) -> Tensor:
    return emit.ints("Concat", partitions[0].rows, *(partition.longest for partition in partitions), axis=0)
