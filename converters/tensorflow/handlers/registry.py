"""The registries of handlers of operators on tensors, and of operators about the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.handler import Handler, Node
from onnx_sparse.converters.tensorflow.importing.nodes import GraphNode
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Scope
from onnx_sparse.converters.writing import registry

__all__ = ["HANDLERS", "STRUCTURE", "GraphNode", "Handler", "Node", "handles", "structure"]

#: The handlers by TensorFlow operator.
HANDLERS = registry.Registry(Handler)
handles = HANDLERS.handles


@dataclass(frozen=True)
class Structure(registry.Handler):
    """How an operator is converted that is about the graph and not about tensors alone.

    Its function takes a `GraphNode`; its results are values, which need not be tensors.

    Attributes:
        reads: The origins of what a node reads; its inputs when omitted.
    """

    reads: Callable[[Context, Scope, NodeDef], list[Any]] | None = None


#: The operators that are about the graph: constants, variables, tables, branches, loops and lists.
STRUCTURE = registry.Registry(Structure)
structure = STRUCTURE.handles
