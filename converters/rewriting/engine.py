"""Rules in their order, applied until none fires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import ModelProto

from onnx_sparse.converters.rewriting.explanation import Attempt
from onnx_sparse.converters.rewriting.graph import KNOWN_DOMAINS, Graph
from onnx_sparse.converters.rewriting.rule import Rule
from onnx_sparse.converters.rewriting.well_formed import is_well_formed
from onnx_sparse.models.graphs import graphs, names_of, subgraphs
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION

#: Rules that are applied together until none fires.
Phase = Sequence[Rule[Graph]]


def rewrite(model: ModelProto, phases: Sequence[Phase]) -> list[Attempt]:
    """Rewrite a model in place. The types of its tensors must have been inferred.

    Returns:
        The rules that fired, in order, and then, node by node, those that did not.
    """
    return _applied(model, phases, repeated=True)


def rewrite_once(model: ModelProto, phases: Sequence[Phase]) -> list[Attempt]:
    """As `rewrite`, but each phase offers each node once: for rules that match what they write themselves.

    Returns:
        The rules that fired, in order, and then, node by node, those that did not.
    """
    return _applied(model, phases, repeated=False)


def _applied(model: ModelProto, phases: Sequence[Phase], *, repeated: bool) -> list[Attempt]:
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    graph = Graph(model.graph, names=names_of(model), opset=opset)
    attempts = _rewrite(graph, phases, repeated=repeated)
    uses_domain = any(node.domain == DOMAIN for inner in graphs(model.graph) for node in inner.node)
    if uses_domain and all(entry.domain != DOMAIN for entry in model.opset_import):
        model.opset_import.add(domain=DOMAIN, version=OPSET_VERSION)
    return attempts


def _rewrite(graph: Graph, phases: Sequence[Phase], *, repeated: bool) -> list[Attempt]:
    inner = [graph.inner(body) for node in graph.nodes for body in subgraphs(node)]
    attempts = [attempt for body in inner for attempt in _rewrite(body, phases, repeated=repeated)]
    if inner:
        graph.index()  # what they read has changed
    declined: dict[tuple[str, str], Attempt] = {}
    for phase in phases:
        while True:
            tried = [*_sweep(graph, phase)]
            fired = [attempt for attempt in tried if attempt.fired]
            attempts += fired
            if fired or repeated:
                graph.tidy()
            if not fired or not repeated:
                break
        declined |= {(attempt.rule, attempt.node): attempt for attempt in tried if not attempt.fired}
    graph.write_back()
    left = {node.name for node in graph.nodes}
    return attempts + [attempt for attempt in declined.values() if attempt.node in left]


def _sweep(graph: Graph, rules: Phase) -> Iterator[Attempt]:
    """Offer every node to every rule once; ONNX Runtime refuses malformed ones."""
    for rule in rules:
        for node in list(graph.nodes):
            is_anchor = node.op_type in rule.anchors and node.domain in KNOWN_DOMAINS
            attempt = rule.attempt(graph, node) if is_anchor and is_well_formed(node, graph.opset) else None
            if attempt is not None:
                yield attempt
