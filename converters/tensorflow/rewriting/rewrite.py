"""The rules in their order, applied until none fires."""

from __future__ import annotations

from onnx import GraphProto, ModelProto

from onnx_sparse.converters.tensorflow.rewriting.empty_rows import DefaultRow, ZeroRow
from onnx_sparse.converters.tensorflow.rewriting.graph import Graph, inner_graphs
from onnx_sparse.converters.tensorflow.rewriting.lookups import DirectLookup, WeightedMean, WeightedSum
from onnx_sparse.converters.tensorflow.rewriting.pruning import (
    AndTrue,
    ColumnByGather,
    KeepByMask,
    KeepColumn,
    KeepOnce,
)
from onnx_sparse.converters.tensorflow.rewriting.row_splits import RowsOfSplits
from onnx_sparse.converters.tensorflow.rewriting.rule import Attempt, Declined, Rule
from onnx_sparse.converters.tensorflow.rewriting.same import SameShape, WholeSlice

#: Phases of rules; those of one phase are applied together until none fires. First lookups take in their weights, while
#: ids and weights are still filled alike; then filled rows are removed, then the remains of pruning.
PHASES: tuple[tuple[Rule, ...], ...] = (
    (WholeSlice(), DirectLookup(), WeightedSum(), SameShape()),
    (WeightedMean(),),
    (DefaultRow(), ZeroRow(), SameShape()),
    (ColumnByGather(), AndTrue(), KeepByMask(), RowsOfSplits(), KeepColumn(), KeepOnce(), SameShape()),
)


def rewrite(model: ModelProto) -> list[Attempt]:
    """Rewrite a converted model in place. The types of its tensors must have been inferred.

    Returns:
        The rules that fired, in order, and then, node by node, those that did not.
    """
    return _rewrite(model.graph, None)


def _rewrite(proto: GraphProto, outer: Graph | None) -> list[Attempt]:
    graph = Graph(proto, outer)
    attempts = [a for node in graph.nodes for inner in inner_graphs(node) for a in _rewrite(inner, graph)]
    declined: dict[tuple[str, str], str] = {}
    for phase in PHASES:
        while True:
            fired, refused = _sweep(graph, phase)
            attempts += fired
            graph.tidy()
            if not fired:
                break
        declined |= refused
    graph.write_back()
    left = {node.name for node in graph.nodes}
    return attempts + [Attempt(rule, node, False, why) for (rule, node), why in declined.items() if node in left]


def _sweep(graph: Graph, rules: tuple[Rule, ...]) -> tuple[list[Attempt], dict[tuple[str, str], str]]:
    """Offer every node to every rule once."""
    fired: list[Attempt] = []
    declined: dict[tuple[str, str], str] = {}
    for rule in rules:
        for node in list(graph.nodes):
            if node.op_type not in rule.anchors:
                continue
            try:
                if rule.apply(graph, node):
                    fired.append(Attempt(rule.name, node.name, True))
            except Declined as reason:
                declined[rule.name, node.name] = str(reason)
    return fired, declined
