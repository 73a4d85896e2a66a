"""Computations on the coordinates of sparse tensors, which several handlers need."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


def sparse_rank(indices: Tensor, shape: Tensor) -> int:
    """The rank of a sparse tensor with coordinates [N, R] and a dense shape [R].

    Raises:
        Unsupported: If neither shape is known.
    """
    sizes = [*(indices.shape or ())[1:], *(shape.shape or ())[:1]]
    known = [size for size in sizes if size is not None]
    if not known:
        raise Unsupported("the rank of the sparse tensor is not known")
    return known[0]


def valid_indices(indices: Tensor, shape: Tensor, emit: Emitter, order: str = "any") -> Tensor:
    """The coordinates [N, R], of which the model refuses those outside the sizes [R], as int64.

    Args:
        indices: The coordinates.
        shape: The sizes.
        emit: Receives the nodes.
        order: `row_major` if the model also refuses entries in another order, or twice.
    """
    inputs = {"indices": emit.cast(indices, TensorProto.INT64), "dense_shape": emit.cast(shape, TensorProto.INT64)}
    (valid,) = emit.domain_op("ValidateSparseIndices", inputs, {"order": order})
    return valid


def dimensions(indices: Tensor, shape: Tensor, emit: Emitter) -> tuple[Tensor, Tensor]:
    """The rank of a sparse tensor, a vector of one element, and the numbers of its dimensions."""
    try:
        rank = sparse_rank(indices, shape)
    except Unsupported:
        count = emit.shape_of(shape)
        return count, emit.op("Range", emit.constant(0), emit.scalar(count), emit.constant(1), shape=(None,))
    return emit.constant([rank]), emit.constant([*range(rank)])


def positions(indices: Tensor, shape: Tensor, emit: Emitter) -> Tensor:
    """The position of each entry in the flattened dense tensor, from coordinates [N, R] and sizes [R]."""
    _, numbers = dimensions(indices, shape, emit)
    # Row k of the mask picks the sizes after dimension k, whose product is the stride of that dimension.
    after = emit.op("Less", emit.op("Unsqueeze", numbers, emit.constant([1])), numbers)
    factors = emit.op("Where", after, shape, emit.constant(1))
    strides = emit.op("ReduceProd", factors, emit.constant([1]), keepdims=0)
    return emit.op("ReduceSum", emit.op("Mul", indices, strides), emit.constant([1]), keepdims=0)


def one_for_each(values: Tensor, indices: Tensor, emit: Emitter) -> Tensor:
    """The values [N] of entries with coordinates [N, R]; the model refuses more or fewer, as TensorFlow does.

    For operators that would not notice: Compress and Gather take what there is, and a single value is broadcast.
    """
    if values.shape is not None and len(values.shape) != 1:
        raise Unsupported(f"its values {values} are not a vector")
    sizes = [(tensor.shape or (None,))[0] for tensor in (values, indices)]
    if sizes[0] is not None and sizes[0] == sizes[1]:
        return values
    return emit.op("Split", values, emit.size(indices, 0), shape=values.shape, axis=0)


def in_row_major_order(indices: Tensor, values: Tensor, shape: Tensor, emit: Emitter) -> tuple[Tensor, Tensor]:
    """Coordinates and values, sorted by coordinates; entries with equal coordinates keep their order.

    The model refuses coordinates outside the shape: their positions are those of other elements.
    """
    indices = valid_indices(indices, shape, emit)
    place = positions(indices, shape, emit)
    _, order = emit.node("TopK", [place, emit.shape_of(place)], [TensorProto.INT64] * 2, largest=0, axis=0)
    return emit.op("Gather", indices, order), emit.op("Gather", values, order)


def column(indices: Tensor, index: int, emit: Emitter) -> Tensor:
    """One coordinate of each entry."""
    return emit.op("Gather", indices, emit.constant(index), axis=1)


def element(vector: Tensor, index: int, emit: Emitter) -> Tensor:
    """One element of a vector, as a scalar."""
    return emit.op("Gather", vector, emit.constant(index), axis=0)
