"""Nodes that no kernel of ONNX Runtime takes, and for which there is no other form: a session would not load them."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import ModelProto, NodeProto

from onnx_sparse.converters.errors import UnsupportedNode
from onnx_sparse.converters.kernels import element_types, forms
from onnx_sparse.converters.onnxruntime.node_forms import form_of
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.models.graphs import names_of, subgraphs
from onnx_sparse.models.tools.opsets import default_opset
from onnx_sparse.schemas.declaration import dtype_name


def unsupported_nodes(model: ModelProto) -> list[UnsupportedNode]:
    """The nodes that no supported version of ONNX Runtime runs, as far as their types and shapes are known."""
    graph = Graph(model.graph, names=names_of(model), opset=default_opset(model))
    return list(_unsupported(graph))


def _unsupported(graph: Graph) -> Iterator[UnsupportedNode]:
    for node in graph.nodes:
        for body in subgraphs(node):
            yield from _unsupported(graph.inner(body))
        if node.domain in ("", "ai.onnx"):
            reason = _of_types(graph, node) or _of_form(graph, node)
            if reason:
                yield UnsupportedNode(node.name, node.op_type, reason)


def _of_types(graph: Graph, node: NodeProto) -> str:
    """The reason why no kernel takes the element types of a node; empty if one does."""
    op_type, opset = node.op_type, graph.opset
    inputs = [(element_types.input_variable(op_type, k, opset), name) for k, name in enumerate(node.input)]
    outputs = [(element_types.output_variable(op_type, k, opset), name) for k, name in enumerate(node.output)]
    for variable, name in (*inputs, *outputs):
        dtype = graph.dtype(name) if name else 0
        if dtype and element_types.is_refused(op_type, variable, dtype, opset):
            known = [dtype_name(t) for t in element_types.kernel_types(op_type, variable, opset)]
            if not known:
                return f"ONNX Runtime has no kernel of {op_type} in operator set {opset}"
            types = ", ".join(known)
            return f"{name!r} is {dtype_name(dtype)}; ONNX Runtime's kernels take {types}: cast it in the source"
    return ""


def _of_form(graph: Graph, node: NodeProto) -> str:
    """The reason why no kernel takes the rank, mode or axes of a node; empty if one does."""
    form = form_of(graph, node)
    if form is None or not forms.is_refused(form):
        return ""
    subject, what = form
    if subject.endswith(" rank"):
        kind = subject.removesuffix(" rank")
        known = ", ".join(map(str, forms.known_ranks(kind)))
        rank = graph.rank(node.input[0])
        return f"{node.input[0]!r} has rank {rank}; ONNX Runtime's kernels of {kind} take the ranks {known}: reshape it"
    return f"ONNX Runtime has no kernel of {subject} {what}"
