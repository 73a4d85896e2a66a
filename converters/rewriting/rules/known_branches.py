"""Branches that are always taken: torch's TorchScript exporter asks in a file for ranks that it has written there."""

from __future__ import annotations

from dataclasses import replace

from onnx import GraphProto, NodeProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.sizes import sizes
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.models.graphs import array_of, attribute, rename


class KnownBranch(Rule[Graph]):
    """An If whose condition compares known numbers, such as ranks, becomes the nodes of its branch. Equal."""

    name = "known-branch"
    anchors = ("If",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A condition that is known."""
        condition = _known(graph, node.input[0])
        if condition is None:
            return None
        return {"branch": attribute(node, "then_branch" if condition else "else_branch")}

    def rewrite(self, graph: Graph, node: NodeProto, branch: GraphProto) -> None:
        """Put the nodes of the branch before the If, under new names."""
        inner = graph.inner(branch)
        renamed: dict[str, str] = {}
        for tensor in branch.initializer:
            constant = array_of(tensor)
            renamed[tensor.name] = graph.add_constant(constant, tensor.data_type, graph.fresh(node, tensor.name), node)
        for taken in branch.node:
            if taken.op_type == "Identity":
                renamed[taken.output[0]] = renamed.get(taken.input[0], taken.input[0])
                continue
            copy = NodeProto()
            copy.CopyFrom(taken)
            made = [inner.tensor(name) for name in taken.output if name]
            renamed |= {tensor.name: graph.fresh(node, tensor.name) for tensor in made}
            copy.name = graph.fresh(node, taken.name or taken.op_type)
            rename([copy], renamed)
            graph.insert(node, copy, [_renamed(tensor, renamed) for tensor in made])
        for number, value in enumerate(branch.output):
            graph.bypass(node, renamed.get(value.name, value.name), number)


def _renamed(tensor: Tensor, renamed: dict[str, str]) -> Tensor:
    return replace(tensor, name=renamed[tensor.name])


def _known(graph: Graph, condition: str) -> bool | None:
    """The value of a condition; None if it is not known."""
    value = graph.constant(condition)
    if value is not None:
        return bool(value.item()) if value.size == 1 else None
    node = graph.producer(condition, "Equal", "Identity", "Not", "Cast")
    if node is None:
        return None
    if node.op_type != "Equal":
        inner = _known(graph, node.input[0])
        return inner if inner is None or node.op_type != "Not" else not inner
    sides = [sizes(graph, name) for name in node.input]
    numbers = [side[0][0] for side in sides if side is not None and len(side) == 1 and not side[0][1]]
    return numbers[0] == numbers[1] if len(numbers) == 2 else None
