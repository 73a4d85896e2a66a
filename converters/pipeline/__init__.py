"""What is done with a model once a source's nodes are converted: named passes, in one list for each source.

A list is read from top to bottom; docs/design.md shows those of all sources.
"""

from __future__ import annotations

from onnx_sparse.converters.pipeline.passes import (
    CHECK,
    INFER,
    INFER_STRICTLY,
    INFER_WITH_TYPES,
    LAYOUTS,
    RECORD_PRODUCER,
    REFUSE_NEGATIVE_IDS,
    REFUSE_UNSUPPORTED,
    SIMPLIFY,
    guard_against,
    refuse_ids,
    rewrite_by,
)
from onnx_sparse.converters.pipeline.run import Draft, Pass, run
from onnx_sparse.converters.rewriting import Rewriting

__all__ = [
    "CHECK",
    "INFER",
    "INFER_STRICTLY",
    "INFER_WITH_TYPES",
    "LAYOUTS",
    "RECORD_PRODUCER",
    "REFUSE_NEGATIVE_IDS",
    "REFUSE_UNSUPPORTED",
    "SIMPLIFY",
    "Draft",
    "Pass",
    "Rewriting",
    "guard_against",
    "refuse_ids",
    "rewrite_by",
    "run",
]
