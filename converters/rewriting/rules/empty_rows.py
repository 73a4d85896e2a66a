"""Rules for the empty rows into which safe_embedding_lookup_sparse puts an id."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.entries import column, one_more_than_the_last
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.rules.lookups import REDUCTIONS
from onnx_sparse.converters.rewriting.sizes import size_of, sizes
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.models.graphs import attribute, attributes


def unlike_a_default(graph: Graph, node: NodeProto, weight: str | None) -> str | None:
    """Why what fills the empty rows of a lookup is not what its default_index would mean, if it is not.

    Args:
        graph: The graph.
        node: The lookup.
        weight: The weight that fills them; None if the weights were not filled along with the ids.
    """
    if graph.integers(node.input[4]) != [-1]:
        return "there is a default_index already"
    if graph.shape(node.input[5]) == (0,):
        return None
    if weight is None:
        return "the weights were not filled along with the ids"
    one = graph.constant(weight)
    return "empty rows have another weight than 1" if one is None or one.item() != 1 else None


@dataclass(frozen=True)
class _Filled:
    """The inputs of a SparseFillEmptyRows or RaggedFillEmptyRows node."""

    node: NodeProto
    rows: str  # the coordinates, or the row ids of a ragged tensor
    values: str
    count: str  # the dense shape, or the number of rows
    default: str

    @classmethod
    def of(cls, node: NodeProto) -> _Filled:
        if node.op_type == "SparseFillEmptyRows":
            values, shape, indices, default = node.input
            return cls(node, indices, values, shape, default)
        rows, values, count, default = node.input
        return cls(node, rows, values, count, default)

    @property
    def is_sparse(self) -> bool:
        return self.node.op_type == "SparseFillEmptyRows"

    @property
    def place(self) -> tuple[str, str, str]:
        """What identifies the rows that are filled: equal for ids and their weights."""
        return (self.node.op_type, self.rows, self.count)


class DefaultRow(Rule[Graph]):
    """A lookup of ids whose empty rows were filled with an id becomes a lookup with that id as default_index.

    One row of weight 1 is its own Sum, Mean and SqrtN, and the lookup takes entries in any order, as the fill does,
    which sorts them by row, stably: equal to the bit. An entry of a row that does not exist is an error in both.
    """

    name = "default-row"
    anchors = REDUCTIONS

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A reduction of rows at ids that were filled; its weights may be filled as well."""
        ids = _filled(graph, graph.without_casts(node.input[1]), 1)
        return None if ids is None else {"ids": ids, "weights": _filled(graph, node.input[5], 1)}

    def check(self, graph: Graph, node: NodeProto, ids: _Filled, weights: _Filled | None) -> str | None:
        """The segments must be the filled rows; the id that fills them a constant, with weight 1."""
        default = graph.integers(ids.default)
        if default is None or default[0] < 0:
            return "the id that fills empty rows is not a constant, or is negative"
        segments = graph.without_casts(node.input[2])
        if _rows(graph, segments) != (id(ids.node), 0):
            return "the segments are not the rows that were filled"
        counted = one_more_than_the_last(graph, graph.without_casts(node.input[3]))
        if counted is None or graph.without_casts(counted) != segments:
            return "the number of segments is not that of the filled rows"
        weight = None if weights is None or weights.place != ids.place else weights.default
        return unlike_a_default(graph, node, weight)

    def rewrite(self, graph: Graph, node: NodeProto, ids: _Filled, weights: _Filled | None) -> None:
        """Give the reduction the ids as they were before they were filled."""
        emit = graph.emitter(node)
        rows, count = graph.tensor(ids.rows), graph.tensor(ids.count)
        if ids.is_sparse:
            first = emit.constant(0)
            rows = emit.op("Gather", rows, first, shape=(None,), axis=1)
            count = emit.op("Gather", count, first, shape=(), axis=0)
        inputs = [
            node.input[0],
            emit.cast(graph.tensor(ids.values), TensorProto.INT64),
            rows,
            count,
            emit.cast(emit.scalar(graph.tensor(ids.default)), TensorProto.INT64),
            node.input[5] if weights is None else weights.values,
        ]
        graph.replace(node, node.op_type, inputs, segment_ids_order="any")


class ZeroRow(Rule[Graph]):
    """Zeros selected for the empty rows of a lookup with a default row become a lookup without one.

    The pattern is `Where(is_empty, 0, lookup)`, where is_empty is the fill's indicator for the same rows. Equal to the
    bit.
    """

    name = "zero-row"
    anchors = ("Where",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Where of a lookup's result by the indicator of empty rows."""
        lookup = graph.producer(node.input[2], *REDUCTIONS)
        empty = broadcast_rows(graph, node.input[0])
        fill = graph.producer(empty, "SparseFillEmptyRows", "RaggedFillEmptyRows") if empty is not None else None
        if lookup is None or fill is None or fill.output[2] != empty:
            return None
        return {"lookup": lookup, "filled": _Filled.of(fill)}

    def check(self, graph: Graph, node: NodeProto, lookup: NodeProto, filled: _Filled) -> str | None:
        """Zeros must be selected, for the rows of the lookup."""
        if not is_zero(graph, node.input[1]):
            return "something other than 0 is selected for empty rows"
        if not _segments_are_of(graph, lookup, filled):
            return "the empty rows belong to other rows than the lookup's"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, lookup: NodeProto, **_: object) -> None:
        """Set default_index = -1, which leaves empty rows 0."""
        inputs: list[Tensor | str] = list(lookup.input)
        inputs[4] = graph.emitter(node).constant(-1)
        graph.replace(node, lookup.op_type, inputs, **attributes(lookup))


def _filled(graph: Graph, name: str, output: int) -> _Filled | None:
    node = graph.producer(name, "SparseFillEmptyRows", "RaggedFillEmptyRows")
    if node is None:
        return None
    # The first outputs correspond: row ids and values of the ragged operator, coordinates and values of the sparse one.
    return _Filled.of(node) if node.output[output] == name else None


def _rows(graph: Graph, segments: str) -> tuple[int, int] | None:
    """The id() of the fill whose row ids or coordinates the segment ids come from, and the column of the latter."""
    node = graph.producer(segments, "RaggedFillEmptyRows")
    if node is not None:
        return (id(node), 0) if node.output[0] == segments else None
    rows = column(graph, segments)
    node = graph.producer(rows.matrix, "SparseFillEmptyRows") if rows is not None else None
    if rows is None or node is None or rows.matrix != node.output[0]:
        return None
    return (id(node), rows.index)


def _segments_are_of(graph: Graph, lookup: NodeProto, filled: _Filled) -> bool:
    """Whether a lookup that `DefaultRow` has rewritten reduces the rows that a fill was given."""
    rows: str | None = lookup.input[2]
    if filled.is_sparse:
        found = column(graph, lookup.input[2])
        rows = found.matrix if found is not None and found.index == 0 else None
    count = sizes(graph, filled.count)
    return rows == filled.rows and count is not None and sizes(graph, lookup.input[3]) == count[:1]


def broadcast_rows(graph: Graph, name: str) -> str | None:
    """The vector with one element per row that is broadcast over the columns; None if there is none."""
    tile = graph.producer(name, "Tile", "Expand")
    if tile is not None:
        repeats = sizes(graph, tile.input[1]) if tile.op_type == "Tile" else None
        if tile.op_type == "Tile" and (repeats is None or repeats[0] != size_of(1)):
            return None
        name = tile.input[0]
    node = graph.producer(name, "Reshape", "Unsqueeze")
    if node is None or graph.rank(node.input[0]) != 1:
        return None
    wanted = [-1, 1] if node.op_type == "Reshape" else [1]
    return node.input[0] if graph.integers(node.input[1]) == wanted else None


def is_zero(graph: Graph, name: str) -> bool:
    """Whether a tensor is 0 everywhere."""
    node = graph.producer(name, "ConstantOfShape")
    if node is not None:
        value = attribute(node, "value")
        return value is None or (not any(value.raw_data) and not any(value.float_data))
    spread = graph.producer(name, "Expand")
    zeros = graph.constant(name if spread is None else spread.input[0])
    return zeros is not None and zeros.size == 1 and not zeros.any()
