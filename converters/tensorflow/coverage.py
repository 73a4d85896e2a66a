"""Which TensorFlow operators the handlers convert, for the documentation."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_sparse.converters.tensorflow.handlers import HANDLERS


@dataclass(frozen=True)
class CoverageRow:
    """One TensorFlow operator.

    Attributes:
        source: The TensorFlow operator.
        target: The operator of the domain that it becomes.
        dtypes: The element types.
        notes: Where the result differs from TensorFlow.
    """

    source: str
    target: str
    dtypes: tuple[str, ...]
    notes: str


def coverage() -> list[CoverageRow]:
    """The operators with a handler, sorted by name; tf2onnx converts others to standard ONNX."""
    return [
        CoverageRow(handler.op_type, handler.to, handler.dtypes, handler.notes)
        for _, handler in sorted(HANDLERS.items())
    ]
