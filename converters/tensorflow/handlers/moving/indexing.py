"""tf.raw_ops that pick and move elements: StridedSlice, GatherV2, Where, Pad, DynamicPartition and others."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.computed_axes import any_axis
from onnx_sparse.converters.tensorflow.handlers.moving.fill import range_of_floats
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering import partitioning, ranges, reordering, slicing
from onnx_sparse.converters.writing.lowering.gathering import gathered
from onnx_sparse.schemas.declaration import FLOATS

_EVERY = ("every type",)
#: Types of which ONNX Runtime finds no largest element, by those that hold them.
_ORDERED_AS: dict[int, int] = {
    **dict.fromkeys((TensorProto.BOOL, TensorProto.INT16, TensorProto.UINT16), TensorProto.INT32),
    TensorProto.UINT32: TensorProto.INT64,
}


@handles("GatherV2", to="Gather", dtypes=_EVERY)
@handles("Gather", to="Gather", dtypes=_EVERY, ignored=("validate_indices",))
@any_axis("axis", "params")
def gather(node: Node, emit: Emitter) -> Tensor:
    """Slices along an axis, by their numbers; in batches, each with indices of its own."""
    if node.op_type == "Gather":
        return gathered(emit, node["params"], node["indices"], 0, 0)
    axis, batch = node["axis"].integer("the axis"), int(node.attributes["batch_dims"])
    return gathered(emit, node["params"], node["indices"], axis, batch)


@handles("StridedSlice", to="Slice", dtypes=_EVERY)
def strided_slice(node: Node, emit: Emitter) -> Tensor:
    """Slices as Python writes them: `x[1:-1, ..., tf.newaxis, 0]`."""
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    masks = {name: int(node.attributes[f"{name}_mask"]) for name in names}
    return slicing.strided_slice(emit, node["input"], node["begin"], node["end"], node["strides"], masks)


@handles("Where", to="NonZero", dtypes=("all numbers", "bool"))
def where(node: Node, emit: Emitter) -> Tensor:
    """The coordinates of the elements that are not 0, row by row."""
    x = node["input"]
    if x.dtype == TensorProto.STRING:
        raise Unsupported("it takes strings")
    if x.rank == 0:
        raise Unsupported("it takes a scalar")
    if x.dtype != TensorProto.BOOL:
        x = emit.cast(x, TensorProto.BOOL)
    return emit.op("Transpose", emit.op("NonZero", x), perm=[1, 0], shape=(None, x.rank))


@handles("ReverseV2", to="Slice", dtypes=_EVERY)
@any_axis("axis", "tensor", may_be_several=True)
def reverse(node: Node, emit: Emitter) -> Tensor:
    """The elements from last to first along axes."""
    return reordering.reversed_along(emit, node["tensor"], node["axis"].integers("axis"))


@handles("Reverse", to="Slice", dtypes=_EVERY)
def reverse_flagged(node: Node, emit: Emitter) -> Tensor:
    """The elements from last to first along the axes that a vector of Booleans marks."""
    x, flags = node["tensor"], node["dims"]
    if flags.value is not None:
        return reordering.reversed_along(emit, x, np.flatnonzero(flags.value).tolist())
    one = emit.constant(1)
    for axis in range(x.rank):
        size = emit.scalar(emit.size(x, axis))
        places = emit.op("Range", emit.constant(0), size, one)
        turned = emit.op("Sub", emit.op("Sub", size, one), places)
        is_turned = emit.op("Gather", flags, emit.constant(axis), axis=0)
        x = emit.op("Gather", x, emit.op("Where", is_turned, turned, places), axis=axis)
    return x


@handles("ReverseSequence", to="ReverseSequence", dtypes=_EVERY)
def reverse_sequence(node: Node, emit: Emitter) -> Tensor:
    """The first elements of each row from last to first, as many as the row's length says."""
    batch, time = (int(node.attributes[name]) for name in ("batch_dim", "seq_dim"))
    return reordering.reverse_sequence(emit, node["input"], node["seq_lengths"], batch=batch, time=time)


@handles("Pad", "PadV2", to="Pad", dtypes=_EVERY)
def pad(node: Node, emit: Emitter) -> Tensor:
    """The tensor with a border of a constant."""
    x = node["input"]
    value = node["constant_values"] if node.op_type == "PadV2" else _nothing(x, emit)
    before_and_after = emit.op("Transpose", emit.int64(node["paddings"]), perm=[1, 0])
    pads = emit.op("Reshape", before_and_after, emit.constant([-1]))
    if x.rank == 0:
        return x
    if x.dtype != TensorProto.STRING:
        return emit.op("Pad", x, pads, value)
    # ONNX Runtime pads no strings: their places are padded, by that of the value after them all.
    flat = emit.op("Reshape", x, emit.constant([-1]))
    count = emit.scalar(emit.size(flat, 0))
    places = emit.op("Range", emit.constant(0), count, emit.constant(1))
    places = emit.op("Pad", emit.op("Reshape", places, emit.shape_of(x), allowzero=1), pads, count)
    value = emit.op("Reshape", value, emit.constant([1]))
    return emit.op("Gather", emit.op("Concat", flat, value, axis=0), places, axis=0)


def _nothing(x: Tensor, emit: Emitter) -> Tensor:
    """What borders are made of: a zero, or a text without characters."""
    return emit.constant("", TensorProto.STRING) if x.dtype == TensorProto.STRING else emit.like(0, x)


@handles("MirrorPad", to="Pad", dtypes=_EVERY)
def mirror_pad(node: Node, emit: Emitter) -> Tensor:
    """The tensor with a border that mirrors it, with its outermost elements or without."""
    x = node["input"]
    if node["paddings"].value is None:
        return _mirrored(node, x, emit)
    paddings = np.reshape(node["paddings"].constant("paddings"), (-1, 2)).tolist()
    return reordering.mirrored(emit, x, paddings, symmetric=node.attributes["mode"] == b"SYMMETRIC")


def _mirrored(node: Node, x: Tensor, emit: Emitter) -> Tensor:
    """The tensor with a border whose width is known only when the model runs: each element from its place."""
    paddings, zero, one = emit.int64(node["paddings"]), emit.constant(0), emit.constant(1)
    inner = emit.constant(0 if node.attributes["mode"] == b"SYMMETRIC" else 1)
    for axis in range(x.rank):
        row = emit.op("Gather", paddings, emit.constant(axis), axis=0)
        before, after = (emit.scalar(emit.op("Gather", row, emit.constant(k))) for k in (0, 1))
        size = emit.scalar(emit.size(x, axis))
        place = emit.op("Range", emit.op("Neg", before), emit.op("Add", size, after), one)
        outer = emit.op("Sub", inner, one)  # what a place before the first one is turned about
        place = emit.op("Where", emit.op("Less", place, zero), emit.op("Sub", outer, place), place)
        last = emit.op("Sub", emit.op("Sub", emit.op("Add", size, size), one), inner)
        place = emit.op("Where", emit.op("Less", place, size), place, emit.op("Sub", last, place))
        x = emit.op("Gather", x, place, axis=axis)
    return x


@handles("DynamicPartition", "TFRA>DynamicPartition", to="Compress", dtypes=_EVERY)
def dynamic_partition(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The slices of each part, in their order."""
    count = int(node.attributes["num_partitions"])
    return partitioning.dynamic_partition(emit, node["data"], node["partitions"], count)


@handles("DynamicStitch", "ParallelDynamicStitch", to="ScatterND", dtypes=_EVERY)
def dynamic_stitch(node: Node, emit: Emitter) -> Tensor:
    """The slices of several tensors, each at its place; of those with one place, the last."""
    return partitioning.dynamic_stitch(emit, node.all("indices"), node.all("data"))


@handles("ArgMax", "ArgMin", to="ArgMax", dtypes=("all numbers",))
@any_axis("dimension", "input")
def arg_extreme(node: Node, emit: Emitter) -> Tensor:
    """The first place of the largest or smallest element along an axis; NaN is neither."""
    axis = node["dimension"].integer("dimension")
    x = node["input"]
    if x.dtype in FLOATS:
        x = emit.op("Where", emit.op("IsNaN", x), emit.like(-np.inf if node.op_type == "ArgMax" else np.inf, x), x)
    x = emit.cast(x, _ORDERED_AS.get(x.dtype, x.dtype))
    return emit.cast(emit.op(node.op_type, x, axis=axis, keepdims=0), node.dtypes[0])


@handles("Cumsum", to="CumSum", dtypes=("all numbers",))
def cumulative_sum(node: Node, emit: Emitter) -> Tensor:
    """For each position, the sum of the elements up to it."""
    flags = {name: int(node.attributes[name]) for name in ("exclusive", "reverse")}
    return emit.op("CumSum", node["x"], emit.scalar(emit.int64(node["axis"])), **flags, shape=node["x"].shape)


@handles("Range", to="Range", dtypes=("all numbers",),
         differs="how many float16 there are is computed in float32; TensorFlow rounds to float16")  # fmt: skip
def number_range(node: Node, emit: Emitter) -> Tensor:
    """Numbers from a first one up to below a limit."""
    start, limit, delta = (emit.scalar(node[name]) for name in ("start", "limit", "delta"))
    if start.value is not None and delta.value is not None and limit.value is not None and not delta.value:
        raise Unsupported("its step is 0")
    if start.dtype in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return range_of_floats(node, emit)
    return emit.op("Range", start, limit, delta)


@handles("LinSpace", to="Range", dtypes=("float", "double", "float16", "bfloat16"))
def linear_space(node: Node, emit: Emitter) -> Tensor:
    """So many numbers from one to another, at equal distances; the last is exact."""
    return ranges.linear_space(emit, node["start"], node["stop"], node["num"])
