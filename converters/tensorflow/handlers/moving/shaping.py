"""tf.raw_ops about shapes: Shape, Size, Reshape, Squeeze, Transpose, Tile, ConcatV2, Split, Slice, Roll and others."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.computed_axes import any_axis
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.converters.writing.lowering import slicing
from onnx_sparse.converters.writing.lowering.reordering import rolled

_EVERY = ("every type",)


@handles("Shape", to="Shape", dtypes=_EVERY)
def shape(node: Node, emit: InferringEmitter) -> Tensor:
    """The sizes of the dimensions."""
    return emit.cast(emit.shape_of(node["input"]), node.dtypes[0])


@handles("ShapeN", to="Shape", dtypes=_EVERY)
def shape_n(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """The shapes of tensors."""
    return tuple(emit.cast(emit.shape_of(tensor), node.dtypes[0]) for tensor in node.all("input"))


@handles("Size", to="Size", dtypes=_EVERY)
def size(node: Node, emit: InferringEmitter) -> Tensor:
    """The number of elements."""
    known = emit.shape_of(node["input"])
    count = (
        emit.op("Size", node["input"], shape=())
        if known.value is None
        else emit.constant(np.prod(known.value, dtype=np.int64))
    )
    return emit.cast(count, node.dtypes[0])


@handles("Rank", to="Size", dtypes=_EVERY)
def rank(node: Node, emit: InferringEmitter) -> Tensor:
    """The number of dimensions."""
    x = node["input"]
    if x.shape is not None:
        return emit.constant(len(x.shape), TensorProto.INT32)
    return emit.cast(emit.op("Size", emit.shape_of(x), shape=()), TensorProto.INT32)


@handles("EnsureShape", to="Identity", dtypes=_EVERY, differs="the shape is not checked")
def ensure_shape(node: Node, emit: InferringEmitter) -> Tensor:
    """The same tensor, of which more is known."""
    x, known = node["input"], node.attributes["shape"]
    if known is None:
        return x
    if x.shape is not None and len(x.shape) != len(known):
        raise Unsupported(f"{x} is not of the shape {known}")
    sizes = zip(known, x.shape or [None] * len(known), strict=True)
    (same,) = emit.node("Identity", [x], [x.dtype], [tuple(k if s is None else s for k, s in sizes)])
    return same


@handles("ExpandDims", to="Unsqueeze", dtypes=_EVERY)
def expand_dims(node: Node, emit: InferringEmitter) -> Tensor:
    """A dimension of size 1 more."""
    return emit.op("Unsqueeze", node["input"], emit.vector(node["dim"]))


@handles("Squeeze", to="Squeeze", dtypes=_EVERY)
def squeeze(node: Node, emit: InferringEmitter) -> Tensor:
    """Dimensions of size 1 fewer: the given ones, or all."""
    x, axes = node["input"], list(node.attributes["squeeze_dims"])
    if not axes and x.shape is not None and None not in x.shape:
        axes = [axis for axis, dim in enumerate(x.shape) if dim == 1]
        if not axes:
            return x
    return emit.op("Squeeze", x, emit.constant(axes) if axes else None)


@handles("Transpose", to="Transpose", dtypes=_EVERY)
def transpose(node: Node, emit: InferringEmitter) -> Tensor:
    """The dimensions in another order."""
    if node["perm"].value is None:
        return _transposed(node["x"], node["perm"], emit)
    order = node["perm"].integers("perm")
    order = [axis + len(order) if axis < 0 else axis for axis in order]
    if order == list(range(len(order))):
        return node["x"]
    return emit.op("Transpose", node["x"], perm=order)


def _transposed(x: Tensor, perm: Tensor, emit: InferringEmitter) -> Tensor:
    """The dimensions in an order that is known only when the model runs: each element from its place in memory."""
    rank, shape = x.rank, emit.shape_of(x)
    order = emit.int64(perm)
    order = emit.op(
        "Where", emit.op("Less", order, emit.constant(0)), emit.op("Add", order, emit.constant(rank)), order
    )
    after = emit.constant(np.triu(np.ones((rank, rank)), 1), TensorProto.BOOL)
    steps = emit.op("ReduceProd", emit.op("Where", after, shape, emit.constant(1)), emit.constant([1]), keepdims=0)
    sizes, steps = (emit.op("Gather", each, order, shape=(rank,)) for each in (shape, steps))
    places = emit.constant(0)
    for axis in range(rank):
        size, step = (emit.scalar(emit.op("Gather", each, emit.constant(axis))) for each in (sizes, steps))
        along = emit.op("Mul", emit.op("Range", emit.constant(0), size, emit.constant(1)), step)
        behind = [*range(1, rank - axis)]
        places = emit.op("Add", places, emit.op("Unsqueeze", along, emit.constant(behind)) if behind else along)
    flat = emit.op("Reshape", x, emit.constant([-1]))
    return emit.op("Gather", flat, places, axis=0, shape=(None,) * rank)


@handles("Tile", to="Tile", dtypes=_EVERY)
def tile(node: Node, emit: InferringEmitter) -> Tensor:
    """The tensor repeated."""
    return emit.op("Tile", node["input"], emit.int64(node["multiples"]))


@handles("BroadcastTo", to="Expand", dtypes=_EVERY)
def broadcast_to(node: Node, emit: InferringEmitter) -> Tensor:
    """The tensor in a larger shape."""
    return emit.op("Expand", node["input"], emit.int64(node["shape"]))


@handles("ConcatV2", "Concat", to="Concat", dtypes=_EVERY)
@any_axis("axis", "values")
def concat(node: Node, emit: InferringEmitter) -> Tensor:
    """Tensors one after the other."""
    axis = node["axis" if node.op_type == "ConcatV2" else "concat_dim"].integer("the axis")
    values = node.all("values")
    return emit.op("Concat", *values, axis=axis) if len(values) > 1 else values[0]


@handles("Pack", to="Concat", dtypes=_EVERY)
def pack(node: Node, emit: InferringEmitter) -> Tensor:
    """Tensors of one shape along a new dimension."""
    axis = emit.constant([node.attributes["axis"]])
    rows = [emit.op("Unsqueeze", tensor, axis) for tensor in node.all("values")]
    return emit.op("Concat", *rows, axis=node.attributes["axis"]) if len(rows) > 1 else rows[0]


@handles("Unpack", to="Split", dtypes=_EVERY)
def unpack(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """The slices along a dimension."""
    axis = emit.constant([node.attributes["axis"]])
    parts = slicing.split_equally(emit, node["value"], node.attributes["axis"], len(node.dtypes))
    return tuple(emit.op("Squeeze", part, axis) for part in parts)


@handles("Split", to="Split", dtypes=_EVERY)
@any_axis("split_dim", "value")
def split(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """Parts of equal size."""
    return slicing.split_equally(emit, node["value"], node["split_dim"].integer("split_dim"), len(node.dtypes))


@handles("SplitV", to="Split", dtypes=_EVERY)
@any_axis("split_dim", "value")
def split_v(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """Parts of given sizes, of which one may be -1: what is left."""
    value, axis, count = node["value"], node["split_dim"].integer("split_dim"), len(node.dtypes)
    if count == 1:
        node.disregard("size_splits")
        return (value,)
    return slicing.split_by_sizes(emit, value, axis, node["size_splits"], count)


@handles("UnravelIndex", to="Mod", dtypes=("int32", "int64"),
         differs="an index beyond the dimensions is not an error; TensorFlow raises")  # fmt: skip
def unravel_index(node: Node, emit: InferringEmitter) -> Tensor:
    """The coordinates of places in a tensor of given dimensions, a row for each dimension."""
    indices, dims = emit.int64(node["indices"]), emit.int64(node["dims"])
    (rank,) = dims.dims
    after = emit.constant(np.triu(np.ones((rank, rank)), 1), TensorProto.BOOL)
    steps = emit.op("ReduceProd", emit.op("Where", after, dims, emit.constant(1)), emit.constant([1]), keepdims=0)
    if indices.rank:
        steps, dims = (emit.op("Unsqueeze", each, emit.constant([1])) for each in (steps, dims))
    return emit.cast(emit.op("Mod", emit.op("Div", indices, steps), dims), node.dtypes[0])


@handles("Reshape", to="Reshape", dtypes=("every type",))
def reshape(node: Node, emit: InferringEmitter) -> Tensor:
    """By default, ONNX takes a 0 for a dimension to be copied; it may be the size of an empty batch."""
    target = node["shape"]
    if target.value is not None and {0, -1} <= {*np.ravel(target.value)}:
        # TensorFlow infers the -1 from the sizes that are not 0; ONNX Runtime does not load such a shape.
        rest = math.prod(filter(None, node["tensor"].dims)) // math.prod(size for size in target.value if size > 0)
        target = emit.constant(np.where(target.value < 0, rest, target.value))
    allowzero = None if target.value is not None and target.value.all() else 1
    return emit.op("Reshape", node["tensor"], emit.cast(target, TensorProto.INT64), allowzero=allowzero)


@handles("Slice", to="Slice", dtypes=("every type",))
def slice_of_sizes(node: Node, emit: InferringEmitter) -> Tensor:
    """Elements from a position on, so many along each axis; -1 stands for all that are left."""
    return slicing.slice_of_sizes(emit, node["input"], node["begin"], node["size"])


@handles(
    "BroadcastArgs",
    to="Where",
    dtypes=("int32", "int64"),
    differs="sizes that do not fit are an error only where the shape is used",
)
def broadcast_args(node: Node, emit: InferringEmitter) -> Tensor:
    """The shape of what is broadcast from tensors of two shapes."""
    shapes = [node["s0"], node["s1"]]
    ranks = [emit.shape_of(shape) for shape in shapes]
    rank, one = emit.op("Max", *ranks), emit.constant([1], shapes[0].dtype)
    first, second = (
        emit.op("Concat", emit.op("Expand", one, emit.op("Sub", rank, own)), shape, axis=0)
        for shape, own in zip(shapes, ranks, strict=True)
    )
    return emit.op("Where", emit.op("Equal", first, one), second, first)


@handles("Roll", to="Slice", dtypes=("every type",))
@any_axis("axis", "input", may_be_several=True)
def roll(node: Node, emit: InferringEmitter) -> Tensor:
    """Move elements along axes; those that leave at one end enter at the other."""
    axes = node["axis"].integers("axis")
    moves = emit.op("Reshape", emit.cast(node["shift"], TensorProto.INT64), emit.constant([-1]))
    shifts = [emit.op("Gather", moves, emit.constant([k])) for k in range(len(axes))]
    return rolled(emit, node["input"], shifts, axes)


@handles("InvertPermutation", to="ScatterElements", dtypes=("int32", "int64"))
def invert_permutation(node: Node, emit: InferringEmitter) -> Tensor:
    """The position of each number."""
    numbers = emit.cast(node["x"], TensorProto.INT64)
    size = emit.op("Squeeze", emit.shape_of(numbers), emit.constant([0]))
    places = emit.op("Range", emit.constant(0), size, emit.constant(1))
    return emit.cast(emit.op("ScatterElements", numbers, numbers, places, axis=0), node["x"].dtype)
