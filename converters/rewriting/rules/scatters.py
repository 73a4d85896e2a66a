"""The rule for rows that are scattered with a reduction, as torch's exporters write it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.dropping import are_not_negative
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.rules.exported_lookups import Lookup, counted_from_the_front
from onnx_sparse.converters.rewriting.sizes import Size, shape_sizes, size_of, sizes
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.segment_reductions import SCATTERED, merged, reduced_by_segment, scattered
from onnx_sparse.models.graphs import attribute
from onnx_sparse.schemas import unsorted_segment
from onnx_sparse.schemas.declaration import INDEX, NUMBERS, dtype_name

#: The opset from which on a Reshape can be to a size of 0.
_ALLOWZERO = 14

#: Up to this many numbers of rows are a constant.
_SMALL = 1 << 12

#: The opset from which on there are Range, and Gather by ids that count from the end.
_RANGE = 11


@dataclass(frozen=True)
class _Ids:
    """The row into which each row is reduced.

    Attributes:
        column: The ids, one for each row, in a tensor whose other dimensions are 1.
        is_repeated: Whether they may be one id for all rows.
    """

    column: str
    is_repeated: bool


class ScatteredRows(Rule[Graph]):
    """Rows that are added to others, or multiplied or compared with them, become a reduction by segment.

    That of a table's rows becomes a lookup. Sums and products are equal up to rounding, maxima and minima to the bit.
    NaN propagates, where ONNX Runtime's scatter keeps or loses it by the order of the rows. On several threads its
    ScatterND loses updates as well.
    """

    name = "scattered-rows"
    anchors = ("ScatterElements", "ScatterND")

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A scatter with a reduction."""
        reduction = attribute(node, "reduction", b"none").decode()
        if reduction not in SCATTERED:
            return None
        axis = _axis(graph, node)
        return {"reduction": reduction, "axis": axis, "ids": _ids(graph, node, axis)}

    def check(self, graph: Graph, node: NodeProto, reduction: str, axis: int, ids: _Ids | str | None) -> str | None:
        """All elements of a row must have the same id, and be scattered."""
        start, indices, rows = node.input
        dtype = graph.dtype(start)
        if dtype not in NUMBERS:
            return f"the rows are {dtype_name(dtype)}"
        if graph.dtype(indices) not in INDEX:
            return f"the ids are {dtype_name(graph.dtype(indices))}"
        if isinstance(ids, str):
            return ids
        if node.op_type == "ScatterND":
            return None
        others = [other for other in range(graph.rank(start) or 0) if other != axis]
        expanded = _expanded_sizes(graph, indices)
        for other in others:
            is_known = expanded is not None and expanded[other] == (shape_sizes(graph, start) or [])[other]
            if not is_known and not any(graph.same_size(start, other, name, other) for name in (indices, rows)):
                return "it is not known that whole rows are scattered: their sizes may differ"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, reduction: str, axis: int, ids: _Ids | None) -> None:
        """Reduce the rows by their ids, and merge them with those that are there."""
        graph.bypass(node, _reduced_rows(graph, node, reduction, axis, ids).name)


def reduced_into(
    graph: Graph, node: NodeProto, reduction: str, *, start: Tensor | None = None, rows: Tensor | None = None
) -> Tensor:
    """What a scatter computes with a reduction, whether or not its opset knows one.

    Args:
        graph: The graph.
        node: The scatter.
        reduction: One of `SCATTERED`.
        start: What the rows are reduced into, in place of the scatter's own.
        rows: The rows, in place of the scatter's own.
    """
    axis, emit = _axis(graph, node), graph.emitter(node)
    ids = _ids(graph, node, axis)
    if not isinstance(ids, str) and ScatteredRows().check(graph, node, reduction, axis, ids) is None:
        return _reduced_rows(graph, node, reduction, axis, ids, start, rows)
    start, rows = start or graph.tensor(node.input[0]), rows or graph.tensor(node.input[2])
    indices, flat = graph.tensor(node.input[1]), emit.constant([-1])
    if node.op_type == "ScatterND":
        return scattered(emit, reduction, emit.shape_of(start), indices, rows, start)
    # The number of each place, which GatherElements finds as the scatter does: it refuses what is out of range.
    count = emit.op("Size", start, shape=())
    places = emit.op("Range", emit.constant(0), count, emit.constant(1), shape=(None,))
    whole = {"allowzero": 1} if graph.opset >= _ALLOWZERO else {}
    places = emit.op("Reshape", places, emit.shape_of(start), shape=start.shape, **whole)
    into = emit.op("GatherElements", places, indices, axis=attribute(node, "axis", 0), shape=indices.shape)
    cells, elements, numbers = (emit.op("Reshape", tensor, flat, shape=(None,)) for tensor in (start, rows, into))
    kind, merge = SCATTERED[reduction]
    reduced = merged(emit, merge, cells, reduced_by_segment(emit, kind, elements, numbers, count))
    return emit.op("Reshape", reduced, emit.shape_of(start), shape=start.shape, **whole)


def _axis(graph: Graph, node: NodeProto) -> int:
    """The dimension along which a scatter's ids count, from the front."""
    rank = graph.rank(node.input[0])
    axis: int = attribute(node, "axis", 0) if node.op_type != "ScatterND" else 0
    return axis % rank if rank else axis


def _reduced_rows(
    graph: Graph,
    node: NodeProto,
    reduction: str,
    axis: int,
    ids: _Ids | None,
    start: Tensor | None = None,
    rows: Tensor | None = None,
) -> Tensor:
    """Whole rows, reduced by their ids and merged with those that are there."""
    emit = graph.emitter(node)
    start, rows = start or graph.tensor(node.input[0]), rows or graph.tensor(node.input[2])
    if ids is None:
        return scattered(emit, reduction, emit.shape_of(start), graph.tensor(node.input[1]), rows, start)
    rows = _cut_off(graph, emit, node, ids, rows, axis)
    size = _size(graph, emit, start, axis)
    start, rows = (_to_front(emit, tensor, axis) for tensor in (start, rows))
    vector = _from_the_front(graph, emit, _vector(graph, emit, ids, rows), size)
    kind, merge = SCATTERED[reduction]
    lookup = Lookup.of(graph, rows.name) if kind == "Sum" else None
    if lookup is not None:
        reduced = lookup.summed(graph, emit, vector, size)
    else:
        reduced = reduced_by_segment(emit, kind, rows, vector, size)
    if kind != "Sum" or graph.uniform(start.name) != 0:
        reduced = merged(emit, merge, start, reduced)
    return _from_front(emit, reduced, start, axis)


def _ids(graph: Graph, node: NodeProto, axis: int) -> _Ids | str | None:
    """The ids of rows, or why there are none; None for several coordinates of each."""
    indices, rank = node.input[1], graph.rank(node.input[0])
    if rank is None:
        return "the rank is not known"
    if node.op_type == "ScatterND":
        shape = graph.shape(indices) or (None,)
        if shape[1:] == (1,):
            return _Ids(indices, False)
        return None if isinstance(shape[-1], int) and shape[-1] > 0 else "the number of coordinates is not known"
    if rank == 0:
        return "a scalar is scattered"
    found: str | None = indices
    while found is not None:
        dims, at = graph.shape(found), axis - rank
        if dims is not None and len(dims) >= -at and all(d == 1 for k, d in enumerate(dims, -len(dims)) if k != at):
            is_whole = any(graph.same_size(found, at, name, axis) for name in node.input[1:])
            return _Ids(found, not is_whole and not _keeps_size(graph, indices, axis))
        repeating = graph.producer(found, "Expand", "Tile", "Identity", "Cast")
        found = None if repeating is None else repeating.input[0]
    return "the elements of a row have different indices"


def _first(graph: Graph, start: str) -> str:
    """What was there before the first of several reductions into the same rows."""
    node = graph.producer(start, "Scatter", "ScatterElements", "ScatterND", *(merge for _, merge in SCATTERED.values()))
    if node is None:
        return start
    is_merge = not node.op_type.startswith("Scatter")
    reduced = graph.producer(node.input[1]) if is_merge else None
    if is_merge and (reduced is None or reduced.op_type not in unsorted_segment.FAMILY.names):
        return start
    return _first(graph, node.input[0])


def _keeps_size(graph: Graph, indices: str, axis: int) -> bool:
    """Whether ids were expanded along other dimensions than their own only."""
    node = graph.producer(indices, "Expand")
    target = None if node is None else sizes(graph, node.input[1])
    return target is not None and target[axis] == size_of(1)


def _expanded_sizes(graph: Graph, indices: str) -> list[Size] | None:
    """The sizes of ids that a column was expanded to; None if they are not known."""
    node = graph.producer(indices, "Expand")
    column, target = (
        (shape_sizes(graph, node.input[0]), sizes(graph, node.input[1])) if node is not None else (None, None)
    )
    if column is None or target is None or len(column) > len(target):
        return None
    ones = [size_of(1)] * (len(target) - len(column))
    return [wide if narrow == size_of(1) else narrow for narrow, wide in zip(ones + column, target, strict=True)]


def _vector(graph: Graph, emit: Emitter, ids: _Ids, rows: Tensor) -> Tensor:
    """One id for each row."""
    column = graph.tensor(ids.column)
    made = graph.producer(ids.column, "Unsqueeze", "Reshape")
    if column.shape is not None and len(column.shape) == 1:
        vector = column
    elif made is not None and graph.rank(made.input[0]) == 1:
        vector = graph.tensor(made.input[0])
    else:
        vector = emit.op("Reshape", column, emit.constant([-1]), shape=(None,))
    if ids.is_repeated:
        size = emit.op("Gather", emit.shape_of(rows), emit.constant([0]), shape=(1,), axis=0)
        vector = emit.op("Expand", vector, size, shape=(None,))
    return vector


def _from_the_front(graph: Graph, emit: Emitter, ids: Tensor, size: Tensor) -> Tensor:
    """Ids of which negative ones, which ONNX counts from the end, are counted from the front.

    Those that are out of range are an error: the operator that follows would drop negative ones.
    """
    if (ids.value is not None and (ids.value >= 0).all()) or are_not_negative(graph, ids.name):
        return ids
    if size.value is not None and size.value <= _SMALL:
        return emit.op("Gather", emit.constant(np.arange(int(size.value))), ids, axis=0, shape=ids.shape)
    if graph.opset >= _RANGE:
        places = emit.op("Range", emit.constant(0), size, emit.constant(1), shape=(None,))
        return emit.op("Gather", places, ids, axis=0, shape=ids.shape)
    counted = counted_from_the_front(graph, emit, ids, size)
    negative = emit.op("Less", counted, emit.like(0, ids), shape=ids.shape)
    return emit.op("Where", negative, emit.cast(size, ids.dtype), counted, shape=ids.shape)


def _size(graph: Graph, emit: Emitter, start: Tensor, axis: int) -> Tensor:
    """The number of rows that are reduced into, a scalar; of zeros, that which they were made with."""
    known = start.shape[axis] if start.shape is not None else None
    if known is not None:
        return emit.constant(known)
    made = graph.producer(_first(graph, start.name), "ConstantOfShape", "Expand")
    if made is not None and (made.op_type == "ConstantOfShape" or graph.rank(made.input[0]) in (0, 1)):
        given = made.input[-1]
        while (parts := graph.producer(given, "Concat")) and axis < ((graph.shape(parts.input[0]) or (0,))[0] or 0):
            given = parts.input[0]
        if (measured := graph.producer(given, "Shape")) and not measured.attribute:
            return _size(graph, emit, graph.tensor(measured.input[0]), axis)
        is_number = made.op_type == "ConstantOfShape" or graph.shape(made.input[0]) in ((), (1,))
        if is_number and graph.dtype(given) == TensorProto.INT64:
            return emit.op("Gather", graph.tensor(given), emit.constant(axis), shape=(), axis=0)
    return emit.op("Gather", emit.shape_of(start), emit.constant(axis), shape=(), axis=0)


def _is_idle(graph: Graph, expand: NodeProto) -> bool:
    """Whether an Expand changes nothing."""
    taken, target = shape_sizes(graph, expand.input[0]), sizes(graph, expand.input[1])
    if taken is None or target is None or len(taken) != len(target):
        return False
    return all(wide in (size_of(1), narrow) for narrow, wide in zip(taken, target, strict=True))


def _cut_off(graph: Graph, emit: Emitter, node: NodeProto, ids: _Ids, rows: Tensor, axis: int) -> Tensor:
    """The rows, cut off after as many as there are ids by these alone, where all ids' sizes were used for that."""
    expanded = graph.producer(rows.name, "Expand")
    if expanded is not None and _is_idle(graph, expanded):
        rows = graph.tensor(expanded.input[0])
    cut = graph.producer(rows.name, "Slice")
    if cut is None or len(cut.input) != 3 or ids.is_repeated or set(graph.integers(cut.input[1]) or (1,)) != {0}:
        return rows
    ends = graph.producer(cut.input[2], "Shape")
    whole, column = graph.tensor(cut.input[0]), graph.shape(ids.column)
    if ends is None or ends.input[0] != node.input[1] or ends.attribute or column is None or whole.shape is None:
        return rows
    start = shape_sizes(graph, node.input[0]) or []
    others = [other for other in range(whole.rank) if other != axis]
    if any((shape_sizes(graph, whole.name) or [])[other] != start[other] for other in others):
        return rows
    vector = _vector(graph, emit, ids, rows)
    counted = emit.op("Shape", vector, shape=(1,))
    return emit.op("Slice", whole, emit.constant([0]), counted, emit.constant([axis]), shape=rows.shape)


def _to_front(emit: Emitter, tensor: Tensor, axis: int) -> Tensor:
    """The tensor with an axis before all others."""
    if axis == 0:
        return tensor
    order = [axis, *(other for other in range(tensor.rank) if other != axis)]
    shape = tuple(tensor.shape[other] for other in order) if tensor.shape is not None else None
    return emit.op("Transpose", tensor, perm=order, shape=shape)


def _from_front(emit: Emitter, tensor: Tensor, like: Tensor, axis: int) -> Tensor:
    """The tensor with its first axis where it was."""
    if axis == 0:
        return tensor
    return emit.op("Transpose", tensor, perm=[*range(1, axis + 1), 0, *range(axis + 1, like.rank)])
