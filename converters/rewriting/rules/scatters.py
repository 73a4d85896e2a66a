"""The rule for rows that are scattered with a reduction, as torch's exporters write it."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import NodeProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.rules.exported_lookups import Lookup, counted_from_the_front, first_size
from onnx_sparse.converters.rewriting.sizes import Size, shape_sizes, size_of, sizes
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.segment_reductions import SCATTERED, merged, reduced_by_segment, scattered
from onnx_sparse.converters.writing.tensor import Tensor
from onnx_sparse.models.graphs import attribute
from onnx_sparse.schemas.declaration import INDEX, NUMBERS, dtype_name


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
        rank, axis = graph.rank(node.input[0]), 0
        if node.op_type == "ScatterElements" and rank:
            axis = attribute(node, "axis", 0) % rank
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
        emit = graph.emitter(node)
        if ids is None:
            whole, indices, updates = (graph.tensor(name) for name in node.input)
            graph.bypass(node, scattered(emit, reduction, emit.shape_of(whole), indices, updates, whole).name)
            return
        start, rows = (_to_front(emit, graph.tensor(node.input[k]), axis) for k in (0, 2))
        size = first_size(emit, start)
        vector = counted_from_the_front(graph, emit, _vector(graph, emit, ids, rows), size)
        kind, merge = SCATTERED[reduction]
        lookup = Lookup.of(graph, rows.name) if kind == "Sum" else None
        if lookup is not None:  # it refuses ids that are out of range
            reduced = lookup.summed(graph, emit, vector, size)
        else:
            vector = _negative_refused(graph, emit, vector, size)
            reduced = reduced_by_segment(emit, kind, rows, vector, size)
        if kind != "Sum" or graph.uniform(start.name) != 0:
            reduced = merged(emit, merge, start, reduced)
        graph.bypass(node, _from_front(emit, reduced, start, axis).name)


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
            return _Ids(found, not is_whole)
        repeating = graph.producer(found, "Expand", "Tile", "Identity", "Cast")
        found = None if repeating is None else repeating.input[0]
    return "the elements of a row have different indices"


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


def _negative_refused(graph: Graph, emit: Emitter, ids: Tensor, size: Tensor) -> Tensor:
    """The ids, but their limit in place of negative ones, which the operator would drop: out of range, so an error."""
    if ids.value is not None and (ids.value >= 0).all():
        return ids
    negative = emit.op("Less", ids, emit.like(0, ids), shape=ids.shape)
    return emit.op("Where", negative, emit.cast(size, ids.dtype), ids, shape=ids.shape)


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
