"""A rule for lookups whose negative ids were dropped before, as safe_embedding_lookup_sparse does."""

from __future__ import annotations

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.dropping import Dropped, Kept, before_negative_are_dropped
from onnx_sparse.converters.rewriting.entries import Column, column
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.rules.lookups import REDUCTIONS
from onnx_sparse.models.graphs import attributes


class DropNegative(Rule[Graph]):
    """A lookup of entries of which those with negative ids were dropped drops them itself.

    Others that were dropped with them (those of weights that are not positive) become negative. The same entries are
    reduced in the same order: equal to the bit. What is checked is more: the segments of entries that are dropped.
    """

    name = "drop-negative"
    anchors = REDUCTIONS

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A reduction of ids by segments, both kept by one mask; the segments may be a column of coordinates."""
        segments = graph.without_casts(node.input[2])
        found = column(graph, segments)
        kept = Kept.of(graph, segments if found is None else found.matrix)
        dropped = before_negative_are_dropped(graph, node, kept.mask) if kept is not None else None
        return None if dropped is None else {"kept": kept, "found": found, "dropped": dropped}

    def check(self, graph: Graph, node: NodeProto, dropped: Dropped, **_: object) -> str | None:
        """An id must not become negative by a cast."""
        if graph.dtype(dropped.ids) == TensorProto.INT64 != graph.dtype(node.input[1]):
            return "the ids are narrowed to int32"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, kept: Kept, found: Column | None, dropped: Dropped) -> None:
        """Take the entries as they were before."""
        emit, inputs = graph.emitter(node), list(node.input)
        segments = graph.tensor(kept.source)
        if found is not None:
            segments = emit.op("Gather", segments, emit.constant(found.index), shape=(None,), axis=1)
        inputs[1] = emit.cast(dropped.marked(graph, emit), graph.dtype(node.input[1])).name
        inputs[2] = emit.cast(segments, graph.dtype(node.input[2])).name
        inputs[5] = dropped.weights
        graph.replace(node, node.op_type, inputs, **attributes(node) | {"negative_indices": "drop"})
