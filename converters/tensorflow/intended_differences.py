"""Where the operators' semantics differ from TensorFlow on purpose, which `verify` takes into account.

- NaN propagates in SegmentMax, SegmentMin, UnsortedSegmentMax and UnsortedSegmentMin. In TensorFlow the result depends
  on the position of the NaN in its segment, and on the processor.
- The EmbeddingSegments operators drop entries of segments >= num_segments if segment_ids_order is sorted; TensorFlow
  raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto

from onnx_sparse.converters.writing.tensor import Array
from onnx_sparse.models.graphs import graphs
from onnx_sparse.schemas import DOMAIN

_OUT_OF_RANGE = ("out of range", "must be < num_segments", "is invalid")


@dataclass(frozen=True)
class IntendedDifferences:
    """Which differences a model may have.

    Attributes:
        extremes: Whether it computes maxima or minima by segment.
        drops_entries: Whether it looks up rows by segment and drops those of segments that do not exist.
    """

    extremes: bool
    drops_entries: bool

    @classmethod
    def of(cls, model: ModelProto) -> IntendedDifferences:
        """The differences that a model's operators allow."""
        used = [node for graph in graphs(model.graph) for node in graph.node if node.domain == DOMAIN]
        return cls(
            extremes=any(node.op_type.endswith(("SegmentMax", "SegmentMin")) for node in used),
            drops_entries=any(node.op_type.startswith("EmbeddingSegments") and not _takes_any(node) for node in used),
        )

    def without_nan(self, want: Array, got: Array, feeds: Mapping[str, Array]) -> tuple[Array, Array, str]:
        """Both values, made equal where NaN differs by design, and a note if anything was changed."""
        fed = any(value.dtype.kind == "f" and np.isnan(value).any() for value in feeds.values())
        if not (self.extremes and fed) or want.shape != got.shape or want.dtype.kind != "f" or got.dtype.kind != "f":
            return want, got, ""
        ours = np.isnan(got) & ~np.isnan(want)
        if not ours.any():
            return want, got, ""
        note = "by design: NaN propagates in maxima and minima; in TensorFlow that depends on its position"
        return np.where(ours, got, want).astype(want.dtype), got, note

    def of_error(self, error: BaseException) -> str:
        """What to add to the message of a TensorFlow error that the model does not raise."""
        if self.drops_entries and any(text in str(error) for text in _OUT_OF_RANGE):
            return " (by design: the model drops entries of segments that do not exist)"
        return ""


def _takes_any(node: NodeProto) -> bool:
    """Whether segment ids may be in any order, and must be in range."""
    return any(a.name == "segment_ids_order" and a.s == b"any" for a in node.attribute)
