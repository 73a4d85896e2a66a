"""Walking through nested graphs."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and every graph inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from graphs(inner)
