"""Which operations the handlers convert, for the documentation."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_sparse.converters.ascend.atb.handlers import HANDLERS as ATB
from onnx_sparse.converters.ascend.ge.handlers import HANDLERS as GE
from onnx_sparse.converters.ascend.npu import HANDLERS as NPU


@dataclass(frozen=True)
class CoverageRow:
    """One operation.

    Attributes:
        source: The operation as its files name it.
        target: The ONNX operators that it becomes; those of the domain are `MaskedFill` and `Fill`.
        notes: What is not supported, or assumed.
    """

    source: str
    target: str
    notes: str


def coverage() -> dict[str, list[CoverageRow]]:
    """The operations with a handler, sorted by name, for each kind of file."""
    return {
        "ATB": [CoverageRow(f"{kind}Operation", row.to, row.notes) for kind, row in sorted(ATB.items())],
        "GE": [CoverageRow(op_type, row.to, row.notes) for op_type, row in sorted(GE.items())],
        "torch_npu": [CoverageRow(f"npu::{op_type}", row.to, "") for op_type, row in sorted(NPU.items())],
    }
