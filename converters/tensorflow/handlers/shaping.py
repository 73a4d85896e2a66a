"""tf.raw_ops.Reshape, in which a 0 means size 0, Slice, BroadcastArgs, Roll, InvertPermutation."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter


@handles("Reshape", inputs=("tensor", "shape"), to="Reshape", dtypes=("every type",))
def reshape(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """By default, ONNX takes a 0 for a dimension to be copied; it may be the size of an empty batch."""
    target = node["shape"]
    if target.value is not None and {0, -1} <= {*np.ravel(target.value)}:
        # TensorFlow infers the -1 from the sizes that are not 0; ONNX Runtime does not load such a shape.
        rest = math.prod(filter(None, node["tensor"].dims)) // math.prod(size for size in target.value if size > 0)
        target = emit.constant(np.where(target.value < 0, rest, target.value))
    allowzero = None if target.value is not None and target.value.all() else 1
    return (emit.op("Reshape", node["tensor"], emit.cast(target, TensorProto.INT64), allowzero=allowzero),)


@handles("Slice", inputs=("input", "begin", "size"), to="Slice", dtypes=("every type",))
def slice_of_sizes(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Elements from a position on, so many along each axis; -1 stands for all that are left."""
    begin, size = (emit.cast(node[name], TensorProto.INT64) for name in ("begin", "size"))
    last = np.iinfo(np.int64).max
    if begin.value is not None and size.value is not None:
        end = emit.constant(np.where(size.value == -1, last, begin.value + size.value))
    else:
        to_the_end = emit.op("Equal", size, emit.constant([-1]))
        end = emit.op("Where", to_the_end, emit.constant([last]), emit.op("Add", begin, size))
    return (emit.op("Slice", node["input"], begin, end),)


@handles(
    "BroadcastArgs",
    inputs=("s0", "s1"),
    to="Where",
    dtypes=("int32", "int64"),
    differs="sizes that do not fit are an error only where the shape is used",
)
def broadcast_args(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The shape of what is broadcast from tensors of two shapes."""
    shapes = [node["s0"], node["s1"]]
    ranks = [emit.shape_of(shape) for shape in shapes]
    rank, one = emit.op("Max", *ranks), emit.constant([1], shapes[0].dtype)
    first, second = (
        emit.op("Concat", emit.op("Expand", one, emit.op("Sub", rank, own)), shape, axis=0)
        for shape, own in zip(shapes, ranks, strict=True)
    )
    return (emit.op("Where", emit.op("Equal", first, one), second, first),)


@handles("Roll", inputs=("input", "shift", "axis"), to="Gather", dtypes=("every type",))
def roll(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Move elements along axes; those that leave at one end enter at the other."""
    rolled, axes = node["input"], node["axis"].value
    if axes is None:
        raise Unsupported("axis is not a constant")
    zero, one = emit.constant(0), emit.constant(1)
    moves = emit.op("Reshape", emit.cast(node["shift"], TensorProto.INT64), emit.constant([-1]))
    for k, axis in enumerate(np.ravel(axes)):
        size = emit.op("Squeeze", emit.size(rolled, int(axis)), emit.constant([0]))
        places = emit.op("Sub", emit.op("Range", zero, size, one), emit.op("Gather", moves, emit.constant(k)))
        # There is nothing to divide if the size is 0, but the divisor must not be.
        places = emit.op("Mod", places, emit.op("Max", size, one))
        rolled = emit.op("Gather", rolled, places, axis=int(axis))
    return (rolled,)


@handles("InvertPermutation", inputs=("x",), to="ScatterElements", dtypes=("int32", "int64"))
def invert_permutation(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The position of each number."""
    numbers = emit.cast(node["x"], TensorProto.INT64)
    size = emit.op("Squeeze", emit.shape_of(numbers), emit.constant([0]))
    places = emit.op("Range", emit.constant(0), size, emit.constant(1))
    return (emit.cast(emit.op("ScatterElements", numbers, numbers, places, axis=0), node["x"].dtype),)
