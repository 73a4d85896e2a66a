"""scatter, scatter_add and -reduce, index_add and index_reduce: elements are placed or reduced by ids in any order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.torch.handlers.segment_ids import index, never_negative
from onnx_sparse.converters.writing.lowering.segment_reductions import reduced_by_segment
from onnx_sparse.schemas.declaration import FLOATS

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

_ROWS = "Row by row where all elements of a row have the same index, else element by element. "

_LOOKED_UP = "Rows that are looked up, and may have one weight each, are summed from where they are."

_REDUCTIONS = {"sum": "Sum", "mean": "Mean", "prod": "Prod", "amax": "Max", "amin": "Min"}
_NAMES = {"add": "sum", "multiply": "prod"}


@handles("aten.index_add.default", to="UnsortedSegmentSum or EmbeddingSegmentsSum", notes=_LOOKED_UP)
def index_add(node: Node, emit: TorchEmitter) -> Tensor:
    """self + alpha * the sums of the slices of source by index."""
    alpha = node.number("alpha")
    source = node.tensor("source")
    if isinstance(alpha, Tensor) or alpha != 1:
        factor = alpha if isinstance(alpha, Tensor) else emit.constant(alpha, source.dtype)
        source = emit.op("Mul", source, emit.cast(factor, source.dtype), shape=source.shape)
    return _by_slices(node, emit, source, "sum", include_self=True)


@handles("aten.index_reduce.default", to="UnsortedSegmentProd, -Mean, -Max or -Min")
def index_reduce(node: Node, emit: TorchEmitter) -> Tensor:
    """The reduction of the slices of source by index."""
    return _by_slices(node, emit, node.tensor("source"), node.text("reduce"), node.flag("include_self"))


@handles("aten.scatter_add.default", to="UnsortedSegmentSum or EmbeddingSegmentsSum", notes=_ROWS + _LOOKED_UP)
def scatter_add(node: Node, emit: TorchEmitter) -> Tensor:
    """self + the sums of src by index."""
    return _by_elements(node, emit, node.tensor("src"), "sum", include_self=True)


@handles(
    "aten.scatter_reduce.two",
    to="UnsortedSegmentSum, -Mean, -Prod, -Max or -Min",
    notes=_ROWS + "NaN propagates. Means of integers round down, as torch's.",
)
def scatter_reduce(node: Node, emit: TorchEmitter) -> Tensor:
    """The reduction of src by index, with or without the elements of self."""
    return _by_elements(node, emit, node.tensor("src"), node.text("reduce"), node.flag("include_self"))


#: Writes elements to those of a tensor by index, along a dimension.
_Write = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def _along(node: Node, emit: TorchEmitter, start: Tensor, ids: Tensor, src: Tensor, write: _Write) -> Tensor:
    """What is written along a dimension, which a scalar does not have."""
    rank = start.rank
    start, ids, src = (
        t if t.rank else emit.op("Reshape", t, emit.constant([1]), shape=(1,)) for t in (start, ids, src)
    )
    if rank == 0:
        node.disregard("dim")
        return emit.scalar(write(start, ids, src, 0))
    return write(start, ids, src, start.axis(node.integer("dim")))


@handles("aten.scatter.src", to="ScatterElements")
def scatter(node: Node, emit: TorchEmitter) -> Tensor:
    """The elements of src in place of those of self at index, of which there may be fewer."""
    start, ids, src = node.tensor("self"), index(emit, node.tensor("index")), node.tensor("src")
    return _along(node, emit, start, ids, src, partial(_placed, emit))


@handles("aten.scatter.value", to="ScatterElements")
def scatter_value(node: Node, emit: TorchEmitter) -> Tensor:
    """One number in place of the elements of self at index."""
    start, ids, value = node.tensor("self"), index(emit, node.tensor("index")), node.number("value")
    number = value if isinstance(value, Tensor) else emit.constant(value, start.dtype)
    src = emit.op("Expand", emit.cast(number, start.dtype), emit.shape_of(ids), shape=ids.shape)
    return _along(node, emit, start, ids, src, partial(_placed, emit))


@handles("aten.index_copy.default", to="ScatterND")
def index_copy(node: Node, emit: TorchEmitter) -> Tensor:
    """The slices of source in place of those of self at index."""

    def write(start: Tensor, ids: Tensor, source: Tensor, dim: int) -> Tensor:
        places = emit.int64(never_negative(emit, ids, emit.count(start, dim)))
        column = emit.op("Unsqueeze", places, emit.constant([1]), shape=None if ids.shape is None else (*ids.shape, 1))
        first, rows = (_front(emit, tensor, dim) for tensor in (start, source))
        return _back(emit, emit.op("ScatterND", first, column, rows, shape=first.shape), dim)

    return _along(node, emit, node.tensor("self"), index(emit, node.tensor("index")), node.tensor("source"), write)


@handles("aten.index_fill.int_Scalar", to="ScatterND")
def index_fill(node: Node, emit: TorchEmitter) -> Tensor:
    """One number in place of the slices of self at index; negative ids count from the end."""
    return _filled(node, emit)


@handles("aten.index_fill.int_Tensor", to="ScatterND")
def index_fill_of_tensor(node: Node, emit: TorchEmitter) -> Tensor:
    """One number, which is computed, in place of the slices of self at index; negative ids count from the end."""
    return _filled(node, emit)


def _filled(node: Node, emit: TorchEmitter) -> Tensor:
    start, value = node.tensor("self"), node.number("value")
    number = value if isinstance(value, Tensor) else emit.constant(value, start.dtype)

    def write(start: Tensor, ids: Tensor, number: Tensor, dim: int) -> Tensor:
        places = emit.op("Reshape", emit.int64(ids), emit.constant([-1, 1]), shape=(None, 1))
        first = _front(emit, start, dim)
        rest = emit.shape_of(first, 1)
        shape = emit.op("Concat", emit.count(places, 0), rest, axis=0, shape=(first.rank,))
        rows = emit.op("Expand", emit.cast(number, start.dtype), shape, shape=(None, *(first.shape or ())[1:]))
        return _back(emit, emit.op("ScatterND", first, places, rows, shape=first.shape), dim)

    return _along(node, emit, start, index(emit, node.tensor("index")), number, write)


@handles("aten.put.default", to="ScatterElements or UnsortedSegmentSum")
def put(node: Node, emit: TorchEmitter) -> Tensor:
    """Elements of source in place of, or added to, those of the flattened self; negative ids count from the end."""
    start, flat = node.tensor("self"), emit.constant([-1])
    cells, ids, source = (
        emit.op("Reshape", tensor, flat, shape=(None,))
        for tensor in (start, index(emit, node.tensor("index")), node.tensor("source"))
    )
    if node.flag("accumulate"):
        size = emit.count(cells, 0)
        from_start = emit.op("Add", ids, emit.cast(size, ids.dtype), shape=(None,))
        ids = emit.op("Where", emit.op("Less", ids, emit.like(0, ids)), from_start, ids, shape=(None,))
        placed = _reduced(emit, _Rows(cells, source, ids, size), "sum", include_self=True)
    else:
        placed = emit.op("ScatterElements", cells, ids, source, axis=0, shape=(None,))
    return emit.op("Reshape", placed, emit.shape_of(start), shape=start.shape, allowzero=1)


def _placed(emit: TorchEmitter, start: Tensor, ids: Tensor, src: Tensor, dim: int) -> Tensor:
    ids = never_negative(emit, ids, emit.count(start, dim))
    return emit.op("ScatterElements", start, ids, _cut(emit, src, ids), axis=dim, shape=start.shape)


@handles("aten.scatter.reduce", to="UnsortedSegmentSum or -Prod", notes=_ROWS.strip())
def scatter_with_reduction(node: Node, emit: TorchEmitter) -> Tensor:
    """scatter with a reduction: add or multiply."""
    return _by_elements(node, emit, node.tensor("src"), _NAMES[node.text("reduce")], include_self=True)


@handles("aten.scatter.value_reduce", to="UnsortedSegmentSum or -Prod", notes=_ROWS.strip())
def scatter_value_with_reduction(node: Node, emit: TorchEmitter) -> Tensor:
    """scatter of one number with a reduction."""
    start, ids, value = node.tensor("self"), node.tensor("index"), node.number("value")
    number = value if isinstance(value, Tensor) else emit.constant(value, start.dtype)
    src = emit.op("Expand", emit.cast(number, start.dtype), emit.shape_of(ids), shape=ids.shape)
    return _by_elements(node, emit, src, _NAMES[node.text("reduce")], include_self=True)


@dataclass(frozen=True)
class _Rows:
    """Rows that are reduced into others.

    Attributes:
        start: The rows before [size, ...].
        data: The rows to reduce [rows, ...].
        ids: The row of `start` that each is reduced into [rows]; one that is not there is an error.
        size: The number of rows of `start`, as a vector of one element.
        drops: Whether rows whose id is -1 are dropped.
    """

    start: Tensor
    data: Tensor
    ids: Tensor
    size: Tensor
    drops: bool = False

    def legal_ids(self, emit: TorchEmitter) -> Tensor:
        """The ids for an operator that drops rows with a negative one."""
        return self.ids if self.drops else never_negative(emit, self.ids, self.size)


@dataclass(frozen=True)
class _Lookup:
    """Rows that are looked up in a table and may have weights: `table[ids] * weights[:, None]`.

    Attributes:
        table: The table [V, ...].
        ids: The row of each, as int64 [rows].
        weights: The factor of each [rows]; None if there is none.
    """

    table: Tensor
    ids: Tensor
    weights: Tensor | None = None

    @classmethod
    def of(cls, emit: TorchEmitter, data: Tensor) -> _Lookup | None:
        """Where rows come from, if they are looked up."""
        if found := emit.looked_up(data):
            return cls(*found)
        if data.dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
            return None  # products of half floats are rounded before they are added
        for rows, factor in itertools.permutations(emit.factors(data), 2):
            is_column = factor.shape is not None and factor.shape[1:] == (1,) * (data.rank - 1)
            if not is_column or not all(emit.same_size(part, 0, data, 0) for part in (rows, factor)):
                continue
            if rows.rank == data.rank and (found := emit.looked_up(rows)):
                return cls(*found, emit.op("Reshape", factor, emit.constant([-1]), shape=(None,)))
        return None


def _by_slices(node: Node, emit: TorchEmitter, source: Tensor, reduction: str, include_self: bool) -> Tensor:
    """Reduce slices along a dimension, each with one index."""

    def write(start: Tensor, ids: Tensor, source: Tensor, dim: int) -> Tensor:
        first, data = (_front(emit, tensor, dim) for tensor in (start, source))
        rows = _Rows(first, data, ids, emit.count(start, dim))
        return _back(emit, _reduced(emit, rows, reduction, include_self), dim)

    return _along(node, emit, node.tensor("self"), index(emit, node.tensor("index")), source, write)


def _by_elements(node: Node, emit: TorchEmitter, src: Tensor, reduction: str, include_self: bool) -> Tensor:
    """Reduce elements, each with an index along a dimension of its own."""
    start, ids = node.tensor("self"), index(emit, node.tensor("index"))

    def write(start: Tensor, ids: Tensor, src: Tensor, dim: int) -> Tensor:
        return _scattered(emit, start, ids, src, dim, reduction, include_self)

    return _along(node, emit, start, ids, src, write)


def _scattered(
    emit: TorchEmitter, start: Tensor, ids: Tensor, src: Tensor, dim: int, reduction: str, include_self: bool
) -> Tensor:
    longer = _longer(emit, src, ids)
    vector = _row_ids(emit, start, ids, dim)
    if vector is None or longer != [dim]:
        src, longer = _cut(emit, src, ids), []
    if vector is not None:
        size = emit.count(start, dim)
        if longer:  # rows without an id are dropped, which is cheaper than to copy the others
            missing = emit.op("Sub", emit.count(src, dim), emit.count(vector, 0), shape=(1,))
            vector = never_negative(emit, vector, size)
            vector = emit.op("Concat", vector, emit.full(-1, vector.dtype, missing), axis=0, shape=(None,))
        first, data = (_front(emit, tensor, dim) for tensor in (start, src))
        rows = _Rows(first, data, vector, size, drops=bool(longer))
        return _back(emit, _reduced(emit, rows, reduction, include_self), dim)
    flat = emit.constant([-1])
    places, total = _places(emit, start, ids, dim)
    cells, elements, into = (emit.op("Reshape", tensor, flat, shape=(None,)) for tensor in (start, src, places))
    reduced = _reduced(emit, _Rows(cells, elements, into, total), reduction, include_self)
    return emit.op("Reshape", reduced, emit.shape_of(start), shape=start.shape, allowzero=1)


def _longer(emit: TorchEmitter, src: Tensor, ids: Tensor) -> list[int]:
    """The axes along which src may have more elements than there are indices."""
    return [axis for axis in range(src.rank) if not emit.same_size(ids, axis, src, axis)]


def _cut(emit: TorchEmitter, src: Tensor, ids: Tensor) -> Tensor:
    """The elements of src that have an index: torch takes only as much of src as there are indices."""
    if not _longer(emit, src, ids):
        return src
    return emit.op("Slice", src, emit.constant([0] * src.rank), emit.shape_of(ids), shape=ids.shape)


def _row_ids(emit: TorchEmitter, start: Tensor, ids: Tensor, dim: int) -> Tensor | None:
    """The indices of whole rows [rows], if the elements of each row have one index and rows are not cut off."""
    others = [axis for axis in range(ids.rank) if axis != dim]
    if not all(emit.same_size(ids, axis, start, axis) for axis in others):
        return None
    found: Tensor | None = ids
    while found is not None:
        if found.shape is not None and _is_column(emit, found, ids, dim):
            return emit.op("Reshape", found, emit.constant([-1]), shape=(found.shape[dim - ids.rank],))
        found = emit.repeated(found)
    return None


def _is_column(emit: TorchEmitter, tensor: Tensor, ids: Tensor, dim: int) -> bool:
    """Whether a tensor, which is repeated to make the indices, has one element for each of a dimension's."""
    axis, rank = dim - ids.rank, tensor.rank
    sizes = tensor.shape or ()
    ones = [sizes[other] == 1 for other in range(-rank, 0) if other != axis]
    return rank >= -axis and all(ones) and emit.same_size(tensor, axis, ids, axis)


def _places(emit: TorchEmitter, start: Tensor, ids: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Where in the flattened tensor each element belongs, and the number of its elements as a vector of one.

    An index that is out of range belongs nowhere: its place is that number, which is an error.
    """
    wide = emit.int64(ids)
    sizes = [emit.count(start, axis) for axis in range(start.rank)]
    stride, place = emit.constant([1]), None
    for axis in reversed(range(start.rank)):
        if axis == dim:
            position = wide
        else:
            count = emit.scalar(emit.count(ids, axis))
            steps = emit.op("Range", emit.constant(0), count, emit.constant(1), shape=(None,))
            ones = [other for other in range(start.rank) if other != axis]
            position = emit.op("Unsqueeze", steps, emit.constant(ones)) if ones else steps
        term = emit.op("Mul", position, stride)
        place = term if place is None else emit.op("Add", place, term)
        stride = emit.op("Mul", stride, sizes[axis], shape=(1,))
    assert place is not None
    negative = emit.op("Less", wide, emit.constant(0))
    beyond = emit.op("GreaterOrEqual", wide, sizes[dim])
    return emit.op("Where", emit.op("Or", negative, beyond), stride, place, shape=ids.shape), stride


def _front(emit: TorchEmitter, tensor: Tensor, dim: int) -> Tensor:
    """The tensor with a dimension before all others."""
    if dim == 0:
        return tensor
    order = [dim, *(axis for axis in range(tensor.rank) if axis != dim)]
    shape = None if tensor.shape is None else tuple(tensor.shape[axis] for axis in order)
    return emit.op("Transpose", tensor, perm=order, shape=shape)


def _back(emit: TorchEmitter, tensor: Tensor, dim: int) -> Tensor:
    """The tensor with its first dimension where it was."""
    if dim == 0:
        return tensor
    return emit.op("Transpose", tensor, perm=[*range(1, dim + 1), 0, *range(dim + 1, tensor.rank)])


def _reduced(emit: TorchEmitter, rows: _Rows, reduction: str, include_self: bool) -> Tensor:
    start, dtype = rows.start, rows.start.dtype
    if reduction not in _REDUCTIONS:
        raise Unsupported(f"reduction {reduction!r} is not known")
    if dtype == TensorProto.BOOL and reduction != "mean":
        start, data = (emit.cast(tensor, TensorProto.UINT8) for tensor in (start, rows.data))
        reduction = {"sum": "amax", "prod": "amin"}.get(reduction, reduction)
        rows = replace(rows, start=start, data=data)
        return emit.cast(_reduced(emit, rows, reduction, include_self), dtype)
    if reduction == "mean":
        return _mean(emit, rows, include_self)
    if reduction == "prod" and include_self:
        # In torch's order, which decides whether a product overflows.
        places = emit.op("Range", emit.constant(0), emit.scalar(rows.size), emit.constant(1), shape=(None,))
        ids = emit.op("Concat", places, emit.int64(rows.ids), axis=0, shape=(None,))
        data = emit.op("Concat", start, rows.data, axis=0, shape=(None, *(start.shape or ())[1:]))
        return _segments(emit, "Prod", replace(rows, ids=ids), data)
    reduced = _segments(emit, _REDUCTIONS[reduction], rows, rows.data)
    if not include_self:
        touched = emit.op("Greater", _counts(emit, rows), emit.constant(0))
        kept = emit.like(0, start) if emit.is_zeros(start) else start
        return emit.op("Where", emit.column(touched, start), reduced, kept, shape=start.shape)
    if reduction == "sum":
        return reduced if emit.is_zeros(start) else emit.op("Add", start, reduced, shape=start.shape)
    return emit.extreme(_REDUCTIONS[reduction], start, reduced, start.shape)


def _segments(emit: TorchEmitter, reduction: str, rows: _Rows, data: Tensor) -> Tensor:
    """The reduction of data by the rows' ids; rows that are looked up are summed from where they are."""
    count = emit.scalar(rows.size)
    looks_up = reduction in ("Sum", "Mean") and not rows.drops
    lookup = _Lookup.of(emit, data) if looks_up else None
    if lookup is None or (reduction == "Mean" and lookup.weights is not None):
        return reduced_by_segment(emit, reduction, data, rows.legal_ids(emit), count)
    inputs = {
        "emb_table": lookup.table,
        "indices": lookup.ids,
        "segment_ids": emit.int64(rows.ids),
        "num_segments": count,
        "per_sample_weights": lookup.weights,
    }
    (reduced,) = emit.domain_op(f"EmbeddingSegments{reduction}", inputs, {"segment_ids_order": "any"})
    return reduced


def _counts(emit: TorchEmitter, rows: _Rows) -> Tensor:
    """How many rows are reduced into each, int64 [size]."""
    return _segments(emit, "Sum", rows, emit.full(1, TensorProto.INT64, emit.shape_of(rows.ids)))


def _mean(emit: TorchEmitter, rows: _Rows, include_self: bool) -> Tensor:
    start, dtype = rows.start, rows.start.dtype
    if dtype in FLOATS and not include_self and emit.is_zeros(start):
        return _segments(emit, "Mean", rows, rows.data)
    counts = _counts(emit, rows)
    touched = emit.column(emit.op("Greater", counts, emit.constant(0)), start)
    if dtype in FLOATS and not include_self:
        return emit.op("Where", touched, _segments(emit, "Mean", rows, rows.data), start, shape=start.shape)
    one = emit.constant(1)
    divisor = emit.op("Add", counts, one) if include_self else emit.op("Max", counts, one)
    total = _segments(emit, "Sum", rows, rows.data)
    if include_self:
        total = emit.op("Add", start, total, shape=start.shape)
    column = emit.cast(emit.column(divisor, start), dtype)
    if dtype not in FLOATS:  # ONNX's division truncates, torch's mean rounds down
        total = emit.op("Sub", total, emit.op("Mod", total, column, shape=start.shape), shape=start.shape)
    mean = emit.op("Div", total, column, shape=start.shape)
    if include_self:
        return mean
    return emit.op("Where", touched, mean, start, shape=start.shape)
