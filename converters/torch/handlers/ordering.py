"""sort.stable, searchsorted, bucketize and isin: orders in which equal elements keep theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.schemas.declaration import FLOATS, DType

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.sort.stable", to="TopK", ignored=("stable",))  # it always is
def sort(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """All elements along a dimension in order, and where each was; NaN is larger than numbers."""
    x = node.tensor("self")
    if x.rank == 0:
        node.disregard("dim", "descending")
        return x, emit.constant(0)
    return sorted_along(emit, x, x.axis(node.integer("dim")), descending=node.flag("descending"))


@handles("aten.topk.default", to="TopK")
def largest(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The k largest or smallest elements along a dimension, and where each was; k may be a size."""
    x, k = node.tensor("self"), emit.vector(node.number("k"))
    options = {"largest": int(node.flag("largest")), "sorted": int(node.flag("sorted"))}
    rank = x.rank
    if rank == 0:  # which TopK does not take
        node.disregard("dim")
        x = emit.op("Reshape", x, emit.constant([1]), shape=(1,))
    axis = x.axis(node.integer("dim")) if rank else 0
    known = None if k.value is None else int(k.value[0])
    shape = None if x.shape is None else (*x.shape[:axis], known, *x.shape[axis + 1 :])
    values, places = emit.ops("TopK", [x, k], [x.dtype, TensorProto.INT64], [shape, shape], axis=axis, **options)
    return (values, places) if rank else (emit.scalar(values), emit.scalar(places))


@handles("aten.cummax.default", to="TopK, ArgMax", notes="In memory for all pairs along the dimension.")
def largest_so_far(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The largest of the elements up to each, and where it is: of equal ones the last; NaN is larger than numbers."""
    return _so_far(node, emit, node.tensor("self"))


@handles("aten.cummin.default", to="TopK, ArgMax", notes="In memory for all pairs along the dimension.")
def smallest_so_far(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """The smallest of the elements up to each, and where it is: of equal ones the last; NaN is smaller than numbers."""
    x = node.tensor("self")
    if x.dtype in FLOATS:
        return _so_far(node, emit, emit.op("Neg", x, shape=x.shape))
    wide = emit.int64(x)  # -1 - x does not overflow
    return _so_far(node, emit, emit.op("Sub", emit.constant(-1), wide, shape=x.shape))


def _so_far(node: Node, emit: TorchEmitter, keys: Tensor) -> tuple[Tensor, Tensor]:
    """The element with the largest key up to each, and its place."""
    x = node.tensor("self")
    if x.rank == 0:
        node.disregard("dim")
        return x, emit.constant(0)
    axis = x.axis(node.integer("dim"))
    _, order = sorted_along(emit, keys, axis, descending=False)
    _, ranks = sorted_along(emit, order, axis, descending=False)  # of equal keys the last has the highest rank
    count = emit.scalar(emit.count(x, axis))
    steps = emit.op("Range", emit.constant(0), count, emit.constant(1), shape=(None,))
    upto = emit.op("Unsqueeze", steps, emit.constant([1]), shape=(None, 1))
    is_before = emit.op("LessOrEqual", steps, upto)  # [place, element]
    permuted = [*(other for other in range(x.rank) if other != axis), axis]
    last = emit.op("Transpose", ranks, perm=permuted)
    pairs = emit.op("Unsqueeze", last, emit.constant([x.rank - 1]))
    among = emit.op("Where", is_before, pairs, emit.constant(-1))
    at = emit.op("ArgMax", among, axis=x.rank, keepdims=0)
    back = [permuted.index(k) for k in range(x.rank)]
    places = emit.op("Transpose", at, perm=back, shape=x.shape)
    return emit.op("GatherElements", x, places, axis=axis, shape=x.shape), places


@handles("aten.searchsorted.Tensor", to="TopK, CumSum")
def search(node: Node, emit: TorchEmitter) -> Tensor:
    """How many elements of a sorted sequence are before each value: they are sorted together and counted."""
    sequence, values = node.tensor("sorted_sequence"), node.tensor("self")
    dtype = _common(sequence.dtype, values.dtype)
    if node.optional("sorter") is not None:
        order = emit.int64(node.tensor("sorter"))
        sequence = emit.op("GatherElements", sequence, order, axis=sequence.rank - 1, shape=sequence.shape)
    is_right = node.flag("right") or node.text("side") == "right"
    return _found(node, emit, emit.cast(sequence, dtype), emit.cast(values, dtype), is_right=is_right)


@handles("aten.bucketize.Tensor", to="TopK, CumSum")
def bucketize(node: Node, emit: TorchEmitter) -> Tensor:
    """How many boundaries are before each value."""
    boundaries, values = node.tensor("boundaries"), node.tensor("self")
    dtype = _common(boundaries.dtype, values.dtype)
    return _found(node, emit, emit.cast(boundaries, dtype), emit.cast(values, dtype), is_right=node.flag("right"))


@handles("aten.isin.Tensor_Tensor", to="TopK, CumSum", ignored=("assume_unique",))
def is_in(node: Node, emit: TorchEmitter) -> Tensor:
    """Whether each element is one of others, of which there may be none; NaN is none of any."""
    elements, others = node.tensor("elements"), node.tensor("test_elements")
    dtype = _common(elements.dtype, others.dtype)
    flat, among = (
        emit.op("Reshape", emit.cast(x, dtype), emit.constant([-1]), shape=(None,)) for x in (elements, others)
    )
    ordered, _ = sorted_along(emit, among, 0, descending=False)
    places = _places(emit, ordered, flat, is_right=False)
    padded = emit.op("Concat", ordered, emit.constant([0], dtype), axis=0, shape=(None,))
    is_there = emit.op("Less", places, emit.count(among, 0), shape=(None,))
    is_equal = emit.op("Equal", emit.op("Gather", padded, places, axis=0, shape=(None,)), flat, shape=(None,))
    found = emit.op("And", is_there, is_equal, shape=(None,))
    if node.flag("invert"):
        found = emit.op("Not", found, shape=(None,))
    return emit.op("Reshape", found, emit.shape_of(elements), shape=elements.shape, allowzero=1)


def _found(node: Node, emit: TorchEmitter, sequence: Tensor, values: Tensor, *, is_right: bool) -> Tensor:
    """The places of values in one sequence, or of the values of each row in a row's."""
    given = values
    if sequence.rank == 1 and values.rank != 1:
        given = emit.op("Reshape", values, emit.constant([-1]), shape=(None,))
    elif sequence.rank != values.rank:
        raise Unsupported("a sequence and values of different ranks")
    places = _places(emit, sequence, given, is_right=is_right)
    if given is not values:
        places = emit.op("Reshape", places, emit.shape_of(values), shape=values.shape, allowzero=1)
    return emit.cast(places, TensorProto.INT32 if node.flag("out_int32") else TensorProto.INT64)


def _places(emit: TorchEmitter, sequence: Tensor, values: Tensor, *, is_right: bool) -> Tensor:
    """The places of values in sequences along the last dimension."""
    axis = sequence.rank - 1
    # Of equal elements the first stays first: on the left of a place are those before the value.
    parts = (sequence, values) if is_right else (values, sequence)
    both = emit.op("Concat", *parts, axis=axis, shape=(*(sequence.shape or ())[:-1], None))
    _, order = sorted_along(emit, both, axis, descending=False)
    _, back = sorted_along(emit, order, axis, descending=False)
    count = emit.count(sequence if is_right else values, axis)
    is_first = emit.cast(emit.op("Less", order, count), TensorProto.INT64)
    is_element = is_first if is_right else emit.op("Sub", emit.constant(1), is_first)
    before = emit.op("CumSum", is_element, emit.constant(axis))
    found = emit.op("GatherElements", before, back, axis=axis)
    start, end = (count, emit.constant([2**62])) if is_right else (emit.constant([0]), count)
    return emit.op("Slice", found, start, end, emit.constant([axis]), shape=values.shape)


def sorted_along(emit: TorchEmitter, x: Tensor, axis: int, *, descending: bool) -> tuple[Tensor, Tensor]:
    """All elements along an axis in order, and where each was; equal ones keep their order."""
    dtypes, shapes = [x.dtype, TensorProto.INT64], [x.shape, x.shape]
    values, places = emit.ops("TopK", [x, emit.size(x, axis)], dtypes, shapes, axis=axis, largest=int(descending))
    return values, places


def _common(one: DType, other: DType) -> DType:
    """The type in which sequences and values are compared."""
    if one == other:
        return one
    floats = [dtype for dtype in (one, other) if dtype in FLOATS]
    if len(floats) == 2 or TensorProto.DOUBLE in floats:
        return TensorProto.DOUBLE
    return floats[0] if floats else TensorProto.INT64
