"""The handlers of this front end, with those that the road by tf2onnx has as well."""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.handlers import HANDLERS
from onnx_sparse.converters.tensorflow.handlers.registry import REFUSALS, Handler
from onnx_sparse.converters.tensorflow.importing.handlers.registry import STANDARD, STRUCTURE
from onnx_sparse.converters.tensorflow.reading.scopes import CALLS, COPIES, TUPLES
from onnx_sparse.converters.writing.registry import import_handlers

import_handlers(__name__, __path__)

__all__ = ["STANDARD", "STRUCTURE", "find_handler", "known_operators"]

#: Operators that are read and never converted.
_READ = frozenset(
    {"NoOp", "RestoreV2", "AssignVariableOp", "Assign", "SaveV2", "MergeV2Checkpoints", "Assert", "Print"}
    | {"Switch", "RefSwitch", "Enter", "RefEnter", "NextIteration", "LoopCond"}
)


def find_handler(op_type: str) -> Handler:
    """The handler of an operator.

    Raises:
        Unsupported: There is none.
    """
    found = STANDARD.get(op_type) or HANDLERS.get(op_type)
    if found is None:
        raise Unsupported(REFUSALS.get(op_type, "no converter for this operator"))
    return found


def known_operators() -> frozenset[str]:
    """The operators of which more must be known than their names."""
    return frozenset({*STANDARD, *HANDLERS, *STRUCTURE, *CALLS, *COPIES, *TUPLES, *_READ})
