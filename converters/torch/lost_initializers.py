"""Puts back initializers that onnxscript's optimizer loses.

Its rules name a new constant after a tensor, `x_min`, and replace the initializer that has the name already: of
`x.clamp(-1, 1) + x.clamp(-2, 2)` one bound is left, and the other has no value or the wrong one.
"""

from __future__ import annotations

from typing import Any

from onnx_sparse.models.graphs import Names


def put_back_initializers(model: Any) -> None:
    """Register each constant that a node reads and the graph does not hold, under a name of its own."""
    import onnx_ir as ir

    graph, nodes = model.graph, list(ir.traversal.RecursiveGraphIterator(model.graph))
    made = (value.name for node in nodes for value in node.outputs)
    taken = (*graph.initializers, *(value.name for value in graph.inputs), *made)
    names = Names(name for name in taken if name)
    for value in {id(value): value for node in nodes for value in node.inputs if value is not None}.values():
        is_held = value.producer() is not None or value.is_initializer() or value.is_graph_input()
        if value.const_value is not None and not is_held:
            value.name = names.fresh(value.name or "constant")
            graph.register_initializer(value)
