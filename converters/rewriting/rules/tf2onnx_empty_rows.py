"""Rules for lookups of ids whose empty rows tf2onnx has filled.

It finds the rows without an entry and puts their entries after all others, where TensorFlow has them in order: only a
reduction by row, to which the order means nothing, can be fused with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.entries import column
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.rules.empty_rows import broadcast_rows, is_zero, unlike_a_default
from onnx_sparse.converters.rewriting.rules.exported_lookups import (
    before_counting,
    counted_from_the_front,
    first_size,
    one_per_row,
)
from onnx_sparse.converters.rewriting.rules.lookups import REDUCTIONS, unexpanded
from onnx_sparse.converters.rewriting.rules.tf2onnx_segments import MeanBySegment, is_one_more, scalar
from onnx_sparse.converters.rewriting.sizes import sizes
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.models.graphs import attribute, attributes


@dataclass(frozen=True)
class _Empty:
    """Rows without an entry.

    Attributes:
        coordinates: Those of the entries, a matrix; their first column is the rows.
        count: The number of rows, a vector of one element.
    """

    coordinates: str
    count: str

    @classmethod
    def of(cls, graph: Graph, indicator: str) -> _Empty | None:
        """The rows for which an indicator is true: true everywhere, then false at the rows that have entries."""
        node = graph.producer(indicator, "ScatterElements")
        unique = graph.producer(node.input[1], "Unique") if node is not None else None
        matrix = _first_column(graph, unique.input[0]) if unique is not None else None
        true = graph.producer(node.input[0], "ConstantOfShape") if node is not None else None
        if node is None or unique is None or matrix is None or true is None:
            return None
        is_flat = attribute(unique, "axis") is None and attribute(node, "axis", 0) == 0
        is_set = graph.uniform(node.input[0]) is True and graph.uniform(node.input[2]) is False
        is_plain = unique.output[0] == node.input[1] and attribute(node, "reduction", b"none") == b"none"
        return cls(matrix, true.input[0]) if is_flat and is_set and is_plain else None


@dataclass(frozen=True)
class _Filled:
    """Entries, followed by one for each empty row.

    Attributes:
        empty: The empty rows.
        entries: The entries before: values, or coordinates.
        added: What was put after them.
    """

    empty: _Empty
    entries: str
    added: str

    @classmethod
    def values(cls, graph: Graph, name: str) -> _Filled | None:
        """Values, followed by a default."""
        joined = _joined(graph, name)
        spread = graph.producer(joined.input[1], "Expand") if joined is not None else None
        size = graph.producer(spread.input[1], "Shape") if spread is not None else None
        rows = _numbers_of_empty(graph, size.input[0]) if size is not None else None
        if joined is None or spread is None or rows is None or graph.rank(spread.input[0]) != 0:
            return None
        return cls(rows, joined.input[0], spread.input[0])

    @classmethod
    def coordinates(cls, graph: Graph, name: str) -> _Filled | None:
        """Coordinates, followed by the first of each empty row."""
        joined = _joined(graph, name)
        padded = graph.producer(joined.input[1], "Pad") if joined is not None else None
        rows = graph.producer(padded.input[0], "Unsqueeze") if padded is not None else None
        empty = _numbers_of_empty(graph, rows.input[0]) if rows is not None else None
        if joined is None or padded is None or empty is None or empty.coordinates != joined.input[0]:
            return None
        return cls(empty, joined.input[0], padded.input[0])


class FilledRows(Rule[Graph]):
    """Coordinates whose empty rows were filled stay: it is said why."""

    name = "filled-rows"
    anchors = ("Concat",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """Coordinates, followed by those of empty rows."""
        filled = _Filled.coordinates(graph, node.output[0])
        return None if filled is None else {"filled": filled}

    def check(self, graph: Graph, node: NodeProto, filled: _Filled) -> str | None:
        """They always stay."""
        return "empty rows come after all others here, and in order in SparseFillEmptyRows"

    def rewrite(self, graph: Graph, node: NodeProto, filled: _Filled) -> None:
        """Nothing."""


class MeanOfFilledRows(MeanBySegment):
    """A sum divided by the number of rows becomes a mean where the segments are rows that were filled.

    None of them is empty, so nothing is divided by 0. Equal.
    """

    name = "mean-of-filled-rows"

    def check(
        self, graph: Graph, node: NodeProto, total: NodeProto, count: NodeProto, root: NodeProto | None, least: Any
    ) -> str | None:
        """The segments must be filled rows."""
        is_filled = total.op_type != "UnsortedSegmentSum" and _filled_segments(graph, total.input[2]) is not None
        if least is None and is_filled:
            return self.difference(graph, node, total, count, root)
        return super().check(graph, node, total, count, root, least)


class DefaultOfFilledRows(Rule[Graph]):
    """A lookup of ids whose empty rows were filled becomes a lookup with the id that fills them as default_index.

    One row of weight 1 is its own Sum, Mean and SqrtN: equal to the bit. A row out of range is an error.
    """

    name = "default-of-filled-rows"
    anchors = REDUCTIONS

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A reduction of rows at ids that were filled; its weights may be filled as well."""
        ids = _Filled.values(graph, graph.without_casts(before_counting(graph, node.input[1])))
        return None if ids is None else {"ids": ids, "weights": _Filled.values(graph, unexpanded(graph, node.input[5]))}

    def check(self, graph: Graph, node: NodeProto, ids: _Filled, weights: _Filled | None) -> str | None:
        """The segments must be the filled rows; the id that fills them a constant, with weight 1."""
        default = graph.integers(ids.added)
        if default is None or default[0] < 0:
            return "the id that fills empty rows is not a constant, or is negative"
        segments = _filled_segments(graph, node.input[2])
        if segments is None or segments.empty != ids.empty:
            return "the segments are not the rows that were filled"
        if not is_one_more(graph, graph.without_casts(node.input[3]), node.input[2]):
            return "the number of segments is not that of the filled rows"
        weight = None if weights is None or weights.empty != ids.empty else weights.added
        return unlike_a_default(graph, node, weight)

    def rewrite(self, graph: Graph, node: NodeProto, ids: _Filled, weights: _Filled | None) -> None:
        """Give the reduction the ids as they were before they were filled."""
        emit = graph.emitter(node)
        values = graph.tensor(ids.entries)
        size = first_size(emit, graph.tensor(node.input[0]))
        rows = emit.op("Gather", graph.tensor(ids.empty.coordinates), emit.constant(0), shape=(None,), axis=1)
        inputs: list[Tensor | str] = [
            node.input[0],
            emit.cast(counted_from_the_front(graph, emit, values, size), TensorProto.INT64),
            emit.cast(rows, TensorProto.INT64),
            emit.cast(scalar(graph, emit, ids.empty.count), TensorProto.INT64),
            emit.cast(emit.scalar(graph.tensor(ids.added)), TensorProto.INT64),
            node.input[5] if weights is None else one_per_row(graph, emit, weights.entries, values),
        ]
        graph.replace(node, node.op_type, inputs, segment_ids_order="any")


@dataclass(frozen=True)
class _Choice:
    """Elements of one tensor where a condition is true, of another elsewhere.

    Attributes:
        condition: The condition, from before its negation.
        chosen: What is taken where it is true.
        other: What is taken elsewhere.
    """

    condition: str
    chosen: str
    other: str

    @classmethod
    def of(cls, graph: Graph, node: NodeProto) -> _Choice | None:
        """The choice that a Where makes, or a sum of products with the condition and its negation, as 0 and 1."""
        if node.op_type == "Where":
            return cls(*node.input)
        for first, second in (node.input, reversed(node.input)):
            chosen, other = _product_with_condition(graph, first), _product_with_condition(graph, second)
            negation = graph.producer(other[0], "Not") if other is not None else None
            if chosen is not None and other is not None and negation is not None and negation.input[0] == chosen[0]:
                return cls(chosen[0], chosen[1], other[1])
        return None


class ZeroOfEmptyRows(Rule[Graph]):
    """Zeros chosen for the empty rows of a lookup with a default row become a lookup without one.

    Equal, unless they are chosen by products, which make NaN of a default row that is not finite.
    """

    name = "zero-of-empty-rows"
    anchors = ("Where", "Add")

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A choice between zeros and a lookup's result by the indicator of empty rows."""
        choice = _Choice.of(graph, node)
        lookup = graph.producer(choice.other, *REDUCTIONS) if choice is not None else None
        rows = broadcast_rows(graph, choice.condition) if choice is not None else None
        empty = _Empty.of(graph, rows) if rows is not None else None
        return None if lookup is None or empty is None else {"choice": choice, "lookup": lookup, "empty": empty}

    def check(self, graph: Graph, node: NodeProto, choice: _Choice, lookup: NodeProto, empty: _Empty) -> str | None:
        """Zeros must be chosen, for the rows of the lookup."""
        if not is_zero(graph, choice.chosen):
            return "something other than 0 is selected for empty rows"
        found = column(graph, graph.without_casts(lookup.input[2]))
        is_size = sizes(graph, lookup.input[3]) == sizes(graph, empty.count) is not None
        if found is None or found.matrix != empty.coordinates or found.index != 0 or not is_size:
            return "the empty rows belong to other rows than the lookup's"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, lookup: NodeProto, **_: object) -> None:
        """Set default_index = -1, which leaves empty rows 0."""
        inputs: list[Tensor | str] = list(lookup.input)
        inputs[4] = graph.emitter(node).constant(-1)
        graph.replace(node, lookup.op_type, inputs, **attributes(lookup))


def _product_with_condition(graph: Graph, name: str) -> tuple[str, str] | None:
    """The condition that a product has as 0 and 1, and the other factor."""
    product = graph.producer(name, "Mul")
    for condition, factor in (product.input, reversed(product.input)) if product is not None else ():
        cast = graph.producer(condition, "Cast")
        if cast is not None and graph.dtype(cast.input[0]) == TensorProto.BOOL:
            return cast.input[0], factor
    return None


def _joined(graph: Graph, name: str) -> NodeProto | None:
    """The Concat of two tensors along the first dimension."""
    node = graph.producer(name, "Concat")
    return node if node is not None and len(node.input) == 2 and attribute(node, "axis") == 0 else None


def _numbers_of_empty(graph: Graph, name: str) -> _Empty | None:
    """The empty rows whose numbers a vector is: every number of a row, of which those of empty ones are kept."""
    kept = graph.producer(name, "Compress")
    every = graph.producer(kept.input[0], "Range") if kept is not None else None
    empty = _Empty.of(graph, kept.input[1]) if kept is not None else None
    if kept is None or every is None or empty is None:
        return None
    start, end, step = every.input
    last = graph.producer(end, "Squeeze", "Reshape")
    is_every = graph.integers(start) == [0] and graph.integers(step) == [1]
    return empty if is_every and last is not None and last.input[0] == empty.count else None


def _first_column(graph: Graph, name: str) -> str | None:
    """The matrix of which a tensor is the first column, as a matrix of one column."""
    node = graph.producer(name, "Slice")
    if node is None or len(node.input) not in (4, 5):
        return None
    bounds = [graph.integers(bound) for bound in node.input[1:]]
    return node.input[0] if bounds[:3] == [[0], [1], [1]] and bounds[3:] in ([], [[1]]) else None


def _filled_segments(graph: Graph, segments: str) -> _Filled | None:
    """The filled coordinates whose rows the segments are."""
    found = column(graph, graph.without_casts(segments))
    return _Filled.coordinates(graph, found.matrix) if found is not None and found.index == 0 else None
