"""The registry of ATB's operations and what a handler works with.

A handler that cannot convert an operation raises `Unsupported`, with ATB's own error name if ATB also refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.parameters import Parameters
from onnx_sparse.converters.ascend.atb.records import OperationRecord
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing import reads, registry
from onnx_sparse.converters.writing.reads import Inputs, Reads
from onnx_sparse.converters.writing.registry import Results as Results
from onnx_sparse.schemas.declaration import DType, dtype_name


@dataclass(frozen=True)
class Choices:
    """The user's choices.

    Attributes:
        fill_value: FillOperation's value if the dump lost an infinity or NaN; None refuses such a dump.
        fp16_overflow: What becomes of a value beyond float16. `saturate`: the largest float16 of its sign, in every
            operation, as on 310P and 910A; `ieee`: an infinity, as on Ascend 950; None: the largest float16 in
            FillOperation's value, an infinity in everything that is computed, as on Atlas A2 and A3.
    """

    fill_value: float | None = None
    fp16_overflow: str | None = None

    @property
    def saturates(self) -> bool:
        """Whether results beyond float16 become the largest float16."""
        return self.fp16_overflow == "saturate"


@dataclass(frozen=True)
class Node(reads.Node):
    """An operation as its handler sees it.

    Attributes:
        name: `opName`.
        op_type: `opType`.
        params: Its parameters.
        inputs: The tensors it reads.
        record: A dump's record of its tensors.
        choices: The user's choices.
        results: The number of its results in the graph.
    """

    name: str
    op_type: str
    params: Parameters
    inputs: Inputs[Tensor]
    record: OperationRecord
    choices: Choices
    results: int = 1

    def parts(self) -> Iterable[Reads]:
        """See `Node`."""
        return self.inputs, self.params

    def result_type(self, position: int, default: DType) -> DType:
        """The element type of a result in the dump, for what its parameters do not say."""
        declared = self.record.outputs[position] if position < len(self.record.outputs) else None
        return default if declared is None or declared.dtype is None else declared.dtype

    @property
    def from_mindie(self) -> bool:
        """Whether MindIE's atb_torch wrote it: its types do not end in `Operation`, and its defaults differ."""
        return not self.op_type.endswith("Operation")

    def take(self, *counts: int) -> tuple[Tensor, ...]:
        """The inputs; their number must be one of these."""
        if len(self.inputs) not in counts:
            expected = " or ".join(map(str, counts))
            refuse("ERROR_INVALID_IN_TENSOR_NUM", f"it has {len(self.inputs)} inputs, {expected} expected")
        return tuple(self.inputs)


def refuse(error: str, reason: str) -> NoReturn:
    """Refuse an operation as ATB does, with the name of ATB's error."""
    raise Unsupported(f"{error}: {reason}")


def dims_of(tensor: Tensor, form: str) -> tuple[int, ...]:
    """The dimensions of a tensor that must have as many axes as a form, `tokens, heads, size`, names."""
    if tensor.rank != len(form.split(",")):
        refuse("ERROR_INVALID_TENSOR_DIM", f"{tensor}: [{form}] expected")
    return tensor.dims


def check_types(**tensors: tuple[Tensor, Sequence[DType]]) -> None:
    """Refuse element types that ATB's table of the operation does not have.

    Args:
        tensors: Each input by its name in ATB, with the types that it may have.
    """
    for name, (tensor, allowed) in tensors.items():
        if tensor.dtype not in allowed:
            expected = " or ".join(map(dtype_name, allowed))
            refuse("ERROR_INVALID_TENSOR_INI_MATCH", f"{name} is {dtype_name(tensor.dtype)}; {expected} expected")


@dataclass(frozen=True)
class Handler(registry.Handler):
    """How one operation of ATB is converted.

    Attributes:
        weights: The inputs that are a model's weights; with a dump they become initializers.
        writes: The inputs that it writes in place of outputs, for operations without outputs.
        lacks: What of it is not converted; "" if nothing is known to be missing.
        sums: Whether it sums products along the last axis of its first input, whose rounding grows with their number.
        exact: Whether it only moves elements or decides, so that no element of a result may differ.
    """

    weights: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    lacks: str = ""
    sums: bool = False
    exact: bool | Callable[[Parameters], bool] = False

    def is_exact(self, params: Parameters) -> bool:
        """Whether no element of a result may differ, with these parameters."""
        return self.exact(params) if callable(self.exact) else self.exact


#: What lengths, positions, slots and block tables are.
INTEGERS = (TensorProto.INT32, TensorProto.UINT32)
#: The handlers by operation, without `Operation` at the end.
HANDLERS = registry.Registry(Handler)
handles = HANDLERS.handles
