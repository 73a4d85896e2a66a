"""The handlers of all operators, and what is known of them."""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.handlers import HANDLERS
from onnx_sparse.converters.tensorflow.handlers.registry import REFUSALS, Handler
from onnx_sparse.converters.tensorflow.importing.handlers.registry import STANDARD, STRUCTURE
from onnx_sparse.converters.tensorflow.reading.scopes import CALLS, COPIES, TUPLES
from onnx_sparse.converters.writing.registry import CoverageRow, import_handlers

import_handlers(__name__, __path__)

__all__ = ["STANDARD", "STRUCTURE", "coverage", "find_handler", "known_operators", "structure_coverage"]

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


def coverage() -> list[CoverageRow]:
    """The operators that are computed, sorted by name."""
    return sorted([*STANDARD.coverage(), *HANDLERS.coverage()], key=lambda row: row.source)


def differences() -> dict[str, list[str]]:
    """Where results are meant to differ from TensorFlow's: the operators, sorted by name, by what differs."""
    found: dict[str, list[str]] = {}
    for registry in (STANDARD, HANDLERS):
        for op_type, handler in registry.items():
            if handler.differs:
                found.setdefault(handler.differs, []).append(op_type)
    return {what: sorted(found[what]) for what in sorted(found, key=lambda what: min(found[what]))}


def structure_coverage() -> dict[str, str]:
    """The operators that are about the graph, and what becomes of them."""
    found = {op_type: (row.convert.__doc__ or "").strip().splitlines()[0] for op_type, row in STRUCTURE.items()}
    found |= dict.fromkeys(CALLS, "The nodes of the function, in the place of the call.")
    found |= dict.fromkeys({*COPIES, *TUPLES}, "The tensors that it is given.")
    return dict(sorted(found.items()))
