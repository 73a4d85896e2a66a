"""Lookups of keys in a graph: what is known of their results, and the same lookups of other keys."""

from __future__ import annotations

from onnx import NodeProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.models.graphs import attribute, attributes
from onnx_sparse.models.key_lookups import LOOKUPS

#: What is computed of one element each, with constants of one element.
_ELEMENTWISE = ("Add", "Sub", "Less", "Where", "Cast", *LOOKUPS)
_MOST_STEPS = 12


def least_found(graph: Graph, name: str) -> int | None:
    """The least integer that a lookup of keys, or its sum with a constant, can give; None if that is not known."""
    node = graph.producer(name, *LOOKUPS, "Add")
    if node is None:
        return None
    if node.op_type == "Add":
        for one, other in zip(node.input, reversed(node.input), strict=True):
            found, added = least_found(graph, one), graph.integers(other)
            if found is not None and added:
                return found + min(added)
        return None
    if node.op_type != "LabelEncoder":
        return -1
    values = attribute(node, "values_int64s")
    return None if values is None else min(*values, attribute(node, "default_int64", -1))


class Chain:
    """Elements that are computed of those of another tensor, each of the one at the same place.

    Attributes:
        nodes: The nodes that compute them, in order.
    """

    def __init__(self, source: str, nodes: list[NodeProto]) -> None:
        self._source, self.nodes = source, nodes

    @classmethod
    def between(cls, graph: Graph, source: str, result: str) -> Chain | None:
        """The chain from one tensor to another; None if the latter depends on anything else than constants."""
        found: dict[str, NodeProto] = {}
        waiting = [result]
        while waiting:
            name = waiting.pop()
            if name == source or name in found:
                continue
            node = graph.producer(name, *_ELEMENTWISE)
            if node is None or len(found) == _MOST_STEPS:
                return None
            found[name] = node
            varying = node.input[LOOKUPS[node.op_type] :] if node.op_type in LOOKUPS else node.input
            waiting += [given for given in varying if not _is_one_element(graph, given)]
        order = {id(node): k for k, node in enumerate(graph.nodes)}
        return cls(source, sorted(found.values(), key=lambda node: order[id(node)])) if result != source else None

    def of(self, graph: Graph, near: NodeProto, other: str) -> Tensor:
        """What it computes of another tensor."""
        emit, made = graph.emitter(near), {self._source: graph.tensor(other)}
        result = made[self._source]
        for node in self.nodes:
            given = [made.get(name) or graph.tensor(name) for name in node.input]
            dtype = graph.dtype(node.output[0])
            written = attributes(node)
            (result,) = emit.node(node.op_type, given, [dtype], [graph.shape(other)], domain=node.domain, **written)
            made[node.output[0]] = result
        return result


def _is_one_element(graph: Graph, name: str) -> bool:
    """Whether a tensor is a constant that is broadcast to any shape."""
    return graph.is_constant(name) and graph.shape(name) in ((), (1,))
