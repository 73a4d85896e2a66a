"""The registry of ATB's operations and what a handler works with.

A handler that cannot convert an operation raises `Unsupported`, with ATB's own error name if ATB also refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from onnx_sparse.converters import registry
from onnx_sparse.converters.ascend.atb.parameters import Parameters
from onnx_sparse.converters.ascend.atb.records import OperationRecord
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.registry import Results as Results
from onnx_sparse.converters.tensor import Tensor


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
class Node:
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


@dataclass(frozen=True)
class Handler(registry.Handler):
    """How one operation of ATB is converted.

    Attributes:
        weights: The inputs that are a model's weights; with a dump they become initializers.
        writes: The input that it writes in place of an output, for operations without outputs.
    """

    weights: tuple[int, ...] = ()
    writes: int | None = None


#: The handlers by operation, without `Operation` at the end.
HANDLERS = registry.Registry(Handler)
handles = HANDLERS.handles
