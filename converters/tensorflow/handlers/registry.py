"""The registries of handlers of operators on tensors, and of operators about the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.handler import Handler, Node
from onnx_sparse.converters.tensorflow.importing.values import Value
from onnx_sparse.converters.tensorflow.reading.scopes import Scope
from onnx_sparse.converters.writing.registry import Registry

__all__ = ["HANDLERS", "STRUCTURE", "Handler", "Node", "handles", "structure"]

#: The handlers by TensorFlow operator.
HANDLERS = Registry(Handler)
handles = HANDLERS.handles

Convert = Callable[[Context, Scope, Any], tuple[Value, ...]]
#: The origins of what a node reads.
Reads = Callable[[Context, Scope, Any], list[Any]]


@dataclass(frozen=True)
class Structure:
    """How an operator is converted that is about the graph and not about tensors alone.

    Attributes:
        convert: Converts a node.
        reads: What the node reads; its inputs when omitted.
        ignored: The attributes that it need not read: they say how TensorFlow computes, but not what.
    """

    convert: Convert
    reads: Reads | None = None
    ignored: tuple[str, ...] = ()


#: The operators that are about the graph: constants, variables, tables, branches, loops and lists.
STRUCTURE: dict[str, Structure] = {}


def structure(
    *op_types: str, reads: Reads | None = None, ignored: tuple[str, ...] = ()
) -> Callable[[Convert], Convert]:
    """Register the decorated function for operators."""

    def register(function: Convert) -> Convert:
        for op_type in op_types:
            if op_type in STRUCTURE:
                raise ValueError(f"{op_type} is registered already")
            STRUCTURE[op_type] = Structure(function, reads, ignored)
        return function

    return register
