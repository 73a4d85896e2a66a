"""A way for data with a NaN, and another for data without."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import GraphProto, NodeProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.graph_emitter import GraphEmitter, value_info
from onnx_sparse.models.graphs import attributes
from onnx_sparse.schemas.declaration import FLOATS, DType


def may_have_nan(graph: Graph, name: str) -> bool:
    """Whether there may be a NaN among floats; not in a constant without one."""
    value = graph.constant(name, most=None)
    return graph.dtype(name) in FLOATS and (value is None or bool(np.isnan(value.astype(np.float64)).any()))


def replace_if_nan(
    graph: Graph, node: NodeProto, dtypes: Sequence[DType], write: Callable[[Emitter], Sequence[Tensor]]
) -> None:
    """Replace a node by an If: the node as it is, unless there is a NaN in its first input.

    The sum of all elements is NaN if one is, and costs little; so does the other way for infinities of both signs.
    What is computed from constants, and `may_have_nan`, needs no If. ONNX Runtime puts the nodes of an If whose
    condition is constant in its place, and where it is in a branch and gives a constant of a size that no inference
    knows, as Unique does, this branch gives nothing (1.21 to 1.32).

    Args:
        graph: The graph.
        node: The node.
        dtypes: The element types of all results of the operator.
        write: Writes the nodes for data with a NaN; returns these results.
    """
    emit, data = graph.emitter(node), graph.tensor(node.input[0])
    inputs = [graph.tensor(name) if name else None for name in node.input]
    if graph.is_foldable(data.name):
        results: Sequence[Tensor] = write(emit)
    else:
        has_nan = emit.op("IsNaN", emit.op("ReduceSum", data, keepdims=0, shape=()), shape=())
        branches = {
            "then_branch": _branch(graph, node, write),
            "else_branch": _branch(
                graph, node, lambda body: body.node(node.op_type, inputs, dtypes, **attributes(node))
            ),
        }
        results = emit.node("If", [has_nan], dtypes, **branches)
    for k, name in enumerate(node.output):
        if name:
            graph.bypass(node, results[k].name, k)


def _branch(graph: Graph, node: NodeProto, write: Callable[[Emitter], Sequence[Tensor]]) -> GraphProto:
    body = GraphEmitter(graph.names)
    body.begin(node.name)
    outputs = [value_info(result) for result in write(body)]
    return body.graph(graph.fresh(node, "branch"), [], outputs)
