"""The registries of handlers of operators on tensors, and of operators about the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.handler import Handler, Node
from onnx_sparse.converters.tensorflow.importing.nodes import GraphNode
from onnx_sparse.converters.tensorflow.importing.values import Value
from onnx_sparse.converters.tensorflow.reading.scopes import Scope
from onnx_sparse.converters.writing import registry
from onnx_sparse.converters.writing.reads import refuse_unread

__all__ = ["HANDLERS", "STRUCTURE", "Handler", "Node", "handles", "structure"]

#: The handlers by TensorFlow operator.
HANDLERS = registry.Registry(Handler)
handles = HANDLERS.handles


@dataclass(frozen=True)
class Structure(registry.Handler):
    """How an operator is converted that is about the graph and not about tensors alone.

    Attributes:
        function: Converts a node: its arguments are the conversion, the scope of the node, and the node.
        reads: The origins of what the node reads, by the same arguments; its inputs when omitted.
    """

    reads: Callable[[Context, Scope, Any], list[Any]] | None = None

    def made(self, context: Context, scope: Scope, node: GraphNode) -> tuple[Value, ...]:
        """The results of a node.

        Raises:
            Unsupported: It cannot be converted, or has an attribute that was not read.
        """
        results: tuple[Value, ...] = self.function(context, scope, node)
        refuse_unread(node, self.ignored)
        return results


#: The operators that are about the graph: constants, variables, tables, branches, loops and lists.
STRUCTURE = registry.Registry(Structure)
structure = STRUCTURE.handles
