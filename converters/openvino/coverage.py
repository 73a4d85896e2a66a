"""Which OpenVINO operators the handlers convert, for the documentation."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_sparse.converters.openvino.handlers import HANDLERS


@dataclass(frozen=True)
class CoverageRow:
    """One OpenVINO operator.

    Attributes:
        source: The operator and its version, `MatMul-1`.
        target: The ONNX operators that it becomes.
        notes: What is not supported, or where the result differs.
    """

    source: str
    target: str
    notes: str


def coverage() -> list[CoverageRow]:
    """The operators with a handler, sorted by name and version."""
    return [
        CoverageRow(f"{handler.type}-{version}", handler.to, handler.notes)
        for _, versions in sorted(HANDLERS.items())
        for version, handler in sorted(versions.items())
    ]
