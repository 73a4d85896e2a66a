"""The registry of ATB's operations and what a handler works with.

A handler is a function of an operation and an emitter that returns the operation's results in ATB's order:

    @handles("Transpose", to="Transpose")
    def transpose(op: Operation, emit: Emitter) -> Results:
        (x,) = op.take(1)
        return (emit.transpose(x, op.params.integers("perm")),)

A handler that cannot convert an operation raises `Unsupported` with the reason, and with ATB's own error name if ATB
also refuses the operation; the driver collects these, so that a user sees all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from onnx_sparse.converters.ascend.atb.parameters import Parameters
from onnx_sparse.converters.ascend.atb.records import OperationRecord
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.ascend.tensors import Tensor, Unsupported

Results = tuple[Tensor, ...]


@dataclass(frozen=True)
class Choices:
    """The user's choices.

    Attributes:
        fill_value: FillOperation's value if the dump lost an infinity or NaN; None refuses such a dump.
        fp16_overflow: `saturate`: a value beyond float16 becomes the largest float16 of its sign, as on Atlas A2 and
            A3; `ieee`: it becomes an infinity, as on Ascend 950.
    """

    fill_value: float | None = None
    fp16_overflow: str = "saturate"


@dataclass(frozen=True)
class Operation:
    """An operation as its handler sees it.

    Attributes:
        name: `opName`.
        op_type: `opType`.
        params: Its parameters.
        inputs: The tensors it reads.
        record: A dump's record of its tensors.
        choices: The user's choices.
    """

    name: str
    op_type: str
    params: Parameters
    inputs: tuple[Tensor, ...]
    record: OperationRecord
    choices: Choices

    @property
    def from_mindie(self) -> bool:
        """Whether MindIE's atb_torch wrote it: its types do not end in `Operation`, and its defaults differ."""
        return not self.op_type.endswith("Operation")

    def take(self, *counts: int) -> tuple[Tensor, ...]:
        """The inputs; their number must be one of these."""
        if len(self.inputs) not in counts:
            expected = " or ".join(map(str, counts))
            refuse("ERROR_INVALID_IN_TENSOR_NUM", f"it has {len(self.inputs)} inputs, {expected} expected")
        return self.inputs


def refuse(error: str, reason: str) -> NoReturn:
    """Refuse an operation as ATB does, with the name of ATB's error."""
    raise Unsupported(f"{error}: {reason}")


HandlerFunction = Callable[[Operation, Emitter], Results]


@dataclass(frozen=True)
class Handler:
    """How one operation of ATB is converted.

    Attributes:
        kind: The operation without `Operation`.
        to: The ONNX operators that it becomes.
        convert: The function that converts it.
        weights: The inputs that are a model's weights; with a dump they become initializers.
        writes: The input that it writes in place of an output, for operations without outputs.
        notes: What is not supported, or assumed.
    """

    kind: str
    to: str
    convert: HandlerFunction
    weights: tuple[int, ...] = ()
    writes: int | None = None
    notes: str = ""


#: The handlers by operation, without `Operation` at the end.
HANDLERS: dict[str, Handler] = {}


def handles(
    kind: str, *, to: str, weights: tuple[int, ...] = (), writes: int | None = None, notes: str = ""
) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function as the handler of an operation; see `Handler` for the arguments."""

    def register(function: HandlerFunction) -> HandlerFunction:
        if kind in HANDLERS:
            raise ValueError(f"{kind} has a handler already")
        HANDLERS[kind] = Handler(kind, to, function, weights, writes, notes)
        return function

    return register
