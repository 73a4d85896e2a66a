"""Which outputs of a model are random."""

from __future__ import annotations

from onnx import GraphProto, ModelProto, NodeProto

from onnx_sparse.models.graphs import graphs, read_names, subgraphs

_RANDOM = ("Random", "Multinomial", "Bernoulli")


def random_outputs(model: ModelProto) -> set[str]:
    """The outputs that depend on random numbers."""
    random: set[str] = set()
    for node in model.graph.node:
        if _draws(node) or not random.isdisjoint(read_names([node])):
            random.update(node.output)
    return random.intersection(value.name for value in model.graph.output)


def _draws(node: NodeProto) -> bool:
    """Whether a node, or one in its bodies, draws random numbers."""
    bodies: list[GraphProto] = [graph for body in subgraphs(node) for graph in graphs(body)]
    nodes = [node, *(inner for body in bodies for inner in body.node)]
    return any(each.domain == "" and each.op_type.startswith(_RANDOM) for each in nodes)
