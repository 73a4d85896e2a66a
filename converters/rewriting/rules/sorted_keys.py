"""A rule for keys that are searched in a sorted table."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.writing.lowering.keyed_lookup import KeyedTable
from onnx_sparse.models.graphs import attribute


class FoundInOrder(Rule[Graph]):
    """Values that are searched in a sorted table, and compared with what is there, are found by keys. Equal.

    The pattern is `table[searchsorted(table[:-1], values)] == values`, as torchrec's managed collisions write it. Where
    it is true, the place is the position of the key.
    """

    name = "found-in-order"
    anchors = ("Equal",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A comparison of values with the elements of a table at the places where they were searched."""
        for side, values in (node.input, reversed(node.input)):
            gather = graph.producer(side, "Gather")
            table = graph.constant(gather.input[0], most=None) if gather is not None else None
            if gather is None or table is None or table.ndim != 1 or attribute(gather, "axis", 0) != 0:
                continue
            searched = _searched(graph, gather.input[1], values)
            if searched is not None:
                return {"gather": gather, "values": values, "table": table, "searched": searched}
        return None

    def check(
        self, graph: Graph, node: NodeProto, gather: NodeProto, values: str, table: Array, searched: str
    ) -> str | None:
        """The searched table must be this one, in order, and places be used only where the values are found."""
        if table.dtype.kind not in "iu" or (table[:-1] > table[1:]).any():
            return "the table is not sorted, or not of integers"
        part = graph.constant(searched, most=None)
        if part is None or len(part) < len(table) - 1 or not np.array_equal(part, table[: len(part)]):
            return "another table is searched"
        if graph.rank(values) != 1:
            return "the values are not a vector"
        if len(graph.readers(gather.output[0])) > 1 or gather.output[0] in graph.outputs:
            return "the elements at these places are used elsewhere"
        others = [reader for reader in graph.readers(gather.input[1]) if reader is not gather]
        if gather.input[1] in graph.outputs or any(
            reader.op_type != "Compress" or reader.input[1] != node.output[0] or reader.input[0] != gather.input[1]
            for reader in others
        ):
            return "the places of values that are not found are used"
        return None

    def rewrite(
        self, graph: Graph, node: NodeProto, gather: NodeProto, values: str, table: Array, searched: str
    ) -> None:
        """Find the values by an index. Unused places of such a table hold the same key."""
        emit = graph.emitter(node)
        first = np.flatnonzero(np.concatenate([[True], table[1:] != table[:-1]]))
        keyed = KeyedTable(emit, table[first], first, name=gather.input[0], grows=True)
        places = keyed.looked_up(emit, graph.tensor(values), emit.constant(-1))
        for reader in graph.readers(gather.input[1]):
            if reader.op_type == "Compress":
                graph.set_input(reader, 0, places.name)
        graph.replace(node, "GreaterOrEqual", [places, emit.constant(0)])


def _searched(graph: Graph, places: str, values: str) -> str | None:
    """The table in which places are those of values, on the left of equal elements; None if that is not known.

    The values and the table are sorted together, and the elements before each value are counted.
    """
    cut = graph.producer(places, "Slice")
    counted = graph.producer(cut.input[0], "GatherElements") if cut is not None else None
    summed = graph.producer(counted.input[0], "CumSum") if counted is not None else None
    is_element = graph.producer(summed.input[0], "Sub") if summed is not None else None
    cast = graph.producer(is_element.input[1], "Cast") if is_element is not None else None
    is_value = graph.producer(cast.input[0], "Less") if cast is not None else None
    order = graph.producer(is_value.input[0], "TopK") if is_value is not None else None
    back = graph.producer(counted.input[1], "TopK") if counted is not None else None
    both = graph.producer(order.input[0], "Concat") if order is not None else None
    if cut is None or counted is None or summed is None or is_element is None or is_value is None:
        return None
    if order is None or back is None or both is None or len(both.input) != 2 or both.input[0] != values:
        return None
    are_ascending = all(not attribute(top, "largest", 1) and attribute(top, "sorted", 1) for top in (order, back))
    is_whole = order.output[1] == is_value.input[0] == back.input[0] and back.output[1] == counted.input[1]
    is_exact = graph.integers(is_element.input[0]) == [1] and graph.integers(cut.input[1]) == [0]
    is_inclusive = not attribute(summed, "exclusive", 0) and not attribute(summed, "reverse", 0)
    counts = [graph.producer(name, "Shape") for name in (is_value.input[1], cut.input[2])]
    is_of_values = all(c is not None and c.input[0] == values for c in counts)
    return both.input[1] if are_ascending and is_whole and is_exact and is_inclusive and is_of_values else None
