"""The rule for lookups whose entries may be in any row order."""

from __future__ import annotations

from onnx import GraphProto, NodeProto, TensorProto

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.graph_emitter import GraphEmitter, value_info
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.rewriting.graph import Graph
from onnx_sparse.converters.tensorflow.rewriting.lookups import REDUCTIONS
from onnx_sparse.converters.tensorflow.rewriting.rule import Match, Rule


class RowOrder(Rule[Graph]):
    """Entries of a lookup whose filled rows were removed are sorted by row, if they are not in that order.

    The reduction takes sorted entries only, and drops those of rows that do not exist. TensorFlow sorts all by row
    where it fills rows, stably, and an entry of a row that does not exist is an error. So does RaggedFillEmptyRows, in
    a branch that is taken only by entries that are out of order or range. Equal to the bit.
    """

    name = "row-order"
    anchors = REDUCTIONS

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A reduction whose rows `DefaultRow` had filled."""
        return {} if node.name in graph.in_any_order else None

    def check(self, graph: Graph, node: NodeProto) -> str | None:
        """There is nothing to sort if the rows were counted from splits."""
        return "the rows are in order: they are those of row splits" if _is_counted(graph, node.input[2]) else None

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Pass the entries through a branch."""
        graph.in_any_order.remove(node.name)
        emit = graph.emitter(node)
        taken = [1, 2] if graph.shape(node.input[5]) == (0,) else [1, 2, 5]
        entries = [graph.tensor(node.input[k]) for k in taken]
        rows, count = graph.tensor(node.input[2]), graph.tensor(node.input[3])
        branches = {
            "then_branch": _sorted(graph, node, entries, rows, count),
            "else_branch": _kept(graph, node, entries),
        }
        passed = emit.node(
            "If",
            [_is_out_of_order(rows, count, emit)],
            [entry.dtype for entry in entries],
            [(None,)] * len(entries),
            **branches,
        )
        for position, entry in zip(taken, passed, strict=True):
            node.input[position] = entry.name


def _is_counted(graph: Graph, name: str) -> bool:
    """Whether row ids are a running sum, as `RowsOfSplits` writes it, or those of them that are kept."""
    while (node := graph.producer(name, "Compress", "Cast")) is not None:
        name = node.input[0]
    for op_type in ("Sub", "Slice", "CumSum"):
        node = graph.producer(name, op_type)
        if node is None:
            return False
        name = node.input[0]
    return graph.producer(name, "ScatterElements") is not None


def _is_out_of_order(rows: Tensor, count: Tensor, emit: Emitter) -> Tensor:
    """Whether anything decreases in 0, the rows, and the number of the last row that exists."""
    last = emit.op("Unsqueeze", emit.op("Sub", count, emit.like(1, count)), emit.constant([0]), shape=(1,))
    before = emit.op("Concat", emit.constant([0], rows.dtype), rows, shape=(None,), axis=0)
    after = emit.op("Concat", rows, emit.cast(last, rows.dtype), shape=(None,), axis=0)
    falls = emit.cast(emit.op("Less", after, before, shape=(None,)), TensorProto.UINT8)
    return emit.cast(emit.op("ReduceMax", falls, emit.constant([0]), shape=(), keepdims=0), TensorProto.BOOL)


def _sorted(graph: Graph, node: NodeProto, entries: list[Tensor], rows: Tensor, count: Tensor) -> GraphProto:
    """The branch that sorts entries by row, and raises for those of rows that do not exist."""
    emit = graph.body_emitter(node)
    size = emit.op("Squeeze", emit.shape_of(rows), emit.constant([0]))
    places = emit.op("Range", emit.constant(0), size, emit.constant(1))
    wide = {"value_rowids": emit.cast(rows, TensorProto.INT64), "nrows": emit.cast(count, TensorProto.INT64)}
    filled = emit.domain_op("RaggedFillEmptyRows", {**wide, "values": places, "default_value": emit.constant(-1)})
    is_entry = emit.op("GreaterOrEqual", filled[1], emit.constant(0))
    order = emit.op("Compress", filled[1], is_entry, axis=0)
    return _branch(emit, [emit.op("Gather", entry, order, axis=0) for entry in entries])


def _kept(graph: Graph, node: NodeProto, entries: list[Tensor]) -> GraphProto:
    """The branch that passes entries on."""
    emit = graph.body_emitter(node)
    return _branch(emit, [emit.op("Identity", entry) for entry in entries])


def _branch(emit: GraphEmitter, results: list[Tensor]) -> GraphProto:
    vectors = [Tensor(result.name, result.dtype, (None,)) for result in results]
    return emit.graph("entries", [], [value_info(vector) for vector in vectors])
