"""The handlers of TensorFlow's operators, by family; importing this package fills the registries.

A handler of tensors, which `handles` registers, is a function of a node and an emitter:

- `math`: elements, reductions, products, random numbers, recurrent cells, quantization
- `moving`: what makes, moves, picks or sorts elements
- `images`: windows, sizes, colors, boxes
- `texts`: strings, and the messages and lines in them
- `sparse_tensors`: sparse and ragged tensors, segments, counts, lookups

`structure` holds the operators about the graph, which `structure` registers: they are looked up first, and their
handlers see the graph around the node, and make values that need not be tensors. A family imports only those above it.
"""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.handlers.registry import HANDLERS, STRUCTURE, Handler
from onnx_sparse.converters.tensorflow.importing.refusals import REFUSALS
from onnx_sparse.converters.tensorflow.reading.scopes import CALLS, COPIES, TUPLES
from onnx_sparse.converters.writing.registry import import_handlers, load_entry_points

import_handlers(__name__, __path__)
load_entry_points("tensorflow")

__all__ = ["HANDLERS", "STRUCTURE", "Handler", "find_handler", "known_operators", "structure_coverage"]

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
    found = HANDLERS.get(op_type)
    if found is None:
        raise Unsupported(REFUSALS.get(op_type, "no converter for this operator"))
    return found


def known_operators() -> frozenset[str]:
    """The operators of which more must be known than their names."""
    return frozenset({*HANDLERS, *STRUCTURE, *CALLS, *COPIES, *TUPLES, *_READ})


def differences() -> dict[str, list[str]]:
    """Where results are meant to differ from TensorFlow's: the operators, sorted by name, by what differs."""
    return HANDLERS.differences()


def structure_coverage() -> dict[str, str]:
    """The operators that are about the graph, and what becomes of them."""
    found = {op_type: (row.function.__doc__ or "").strip().splitlines()[0] for op_type, row in STRUCTURE.items()}
    found |= dict.fromkeys(CALLS, "The nodes of the function, in the place of the call.")
    found |= dict.fromkeys({*COPIES, *TUPLES}, "The tensors that it is given.")
    return dict(sorted(found.items()))
