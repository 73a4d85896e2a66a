"""The rules in their order, applied until none fires."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto, ModelProto

from onnx_sparse.converters.graphs import subgraphs
from onnx_sparse.converters.tensorflow.explanation import Attempt
from onnx_sparse.converters.tensorflow.rewriting.empty_rows import DefaultRow, ZeroRow
from onnx_sparse.converters.tensorflow.rewriting.graph import Graph
from onnx_sparse.converters.tensorflow.rewriting.lookups import DirectLookup, WeightedMean, WeightedSum
from onnx_sparse.converters.tensorflow.rewriting.means import MeanOfSlices
from onnx_sparse.converters.tensorflow.rewriting.pruning import (
    AndTrue,
    ColumnByGather,
    KeepByMask,
    KeepColumn,
    KeepOnce,
)
from onnx_sparse.converters.tensorflow.rewriting.row_splits import RowsOfSplits
from onnx_sparse.converters.tensorflow.rewriting.rule import Rule
from onnx_sparse.converters.tensorflow.rewriting.same import KnownShape, SameShape, SameSparseShape, WholeSlice

#: Phases of rules; those of one phase are applied together until none fires. First lookups take in their weights, while
#: ids and weights are still filled alike; then filled rows are removed, then the remains of pruning.
PHASES: tuple[tuple[Rule[Graph], ...], ...] = (
    (WholeSlice(), KnownShape(), DirectLookup(), WeightedSum(), SameShape(), SameSparseShape()),
    (WeightedMean(), MeanOfSlices()),
    (DefaultRow(), ZeroRow(), SameShape(), SameSparseShape()),
    (
        ColumnByGather(),
        AndTrue(),
        KeepByMask(),
        RowsOfSplits(),
        KeepColumn(),
        KeepOnce(),
        KnownShape(),
        SameShape(),
        SameSparseShape(),
    ),
)


def rewrite(model: ModelProto) -> list[Attempt]:
    """Rewrite a converted model in place. The types of its tensors must have been inferred.

    Returns:
        The rules that fired, in order, and then, node by node, those that did not.
    """
    return _rewrite(model.graph, None)


def _rewrite(proto: GraphProto, outer: Graph | None) -> list[Attempt]:
    graph = Graph(proto, outer)
    attempts = [a for node in graph.nodes for inner in subgraphs(node) for a in _rewrite(inner, graph)]
    declined: dict[tuple[str, str], Attempt] = {}
    for phase in PHASES:
        while True:
            tried = [*_sweep(graph, phase)]
            graph.tidy()
            fired = [attempt for attempt in tried if attempt.fired]
            if not fired:
                break
            attempts += fired
        declined |= {(attempt.rule, attempt.node): attempt for attempt in tried}
    graph.write_back()
    left = {node.name for node in graph.nodes}
    return attempts + [attempt for attempt in declined.values() if attempt.node in left]


def _sweep(graph: Graph, rules: tuple[Rule[Graph], ...]) -> Iterator[Attempt]:
    """Offer every node to every rule once."""
    for rule in rules:
        for node in list(graph.nodes):
            attempt = rule.attempt(graph, node) if node.op_type in rule.anchors else None
            if attempt is not None:
                yield attempt
