"""The registries of this front end: handlers of standard operators, and of those that are no computation.

Handlers of standard operators are as those in `converters.tensorflow.handlers`, which run here as well; they stand
apart as long as tf2onnx converts the same operators for `convert`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onnx_sparse.converters.tensorflow.handlers.registry import Handler
from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.values import Value
from onnx_sparse.converters.tensorflow.reading.scopes import Scope
from onnx_sparse.converters.writing.registry import Registry

#: The handlers by TensorFlow operator.
STANDARD = Registry(Handler)
handles = STANDARD.handles

Convert = Callable[[Context, Scope, Any], tuple[Value, ...]]
#: The origins of what a node reads.
Reads = Callable[[Context, Scope, Any], list[Any]]


@dataclass(frozen=True)
class Structure:
    """How an operator is converted that is about the graph and not about tensors alone.

    Attributes:
        convert: Converts a node.
        reads: What the node reads; its inputs when omitted.
    """

    convert: Convert
    reads: Reads | None = None


#: The operators that are about the graph: constants, variables, tables, branches, loops and lists.
STRUCTURE: dict[str, Structure] = {}


def structure(*op_types: str, reads: Reads | None = None) -> Callable[[Convert], Convert]:
    """Register the decorated function for operators."""

    def register(function: Convert) -> Convert:
        for op_type in op_types:
            if op_type in STRUCTURE:
                raise ValueError(f"{op_type} is registered already")
            STRUCTURE[op_type] = Structure(function, reads)
        return function

    return register
