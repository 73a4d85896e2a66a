"""Walking through nested graphs, and renaming tensors in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import GraphProto, NodeProto


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """The graphs in a node's attributes: branches and bodies."""
    return [graph for a in node.attribute for graph in (*a.graphs, *([a.g] if a.HasField("g") else []))]


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and every graph inside it."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from graphs(inner)


def read_names(nodes: Iterable[NodeProto]) -> set[str]:
    """The names of the tensors that nodes and the graphs inside them read."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.input)
        for inner in subgraphs(node):
            names |= read_names(inner.node) | {value.name for value in inner.output}
    return names


def rename(nodes: Iterable[NodeProto], renamed: Mapping[str, str], *, reading_only: bool = False) -> None:
    """Rename tensors where nodes and the graphs inside them read them and, unless told otherwise, make them."""
    if not renamed:
        return
    for node in nodes:
        for names in (node.input,) if reading_only else (node.input, node.output):
            if any(name in renamed for name in names):
                names[:] = [renamed.get(name, name) for name in names]
        for inner in subgraphs(node):
            rename(inner.node, renamed, reading_only=reading_only)
            made = () if reading_only else (*inner.input, *inner.value_info, *inner.initializer)
            for value in (*inner.output, *made):
                value.name = renamed.get(value.name, value.name)
