"""Where the operators' semantics differ from TensorFlow on purpose, which `verify` takes into account.

- NaN propagates in SegmentMax, SegmentMin, UnsortedSegmentMax and UnsortedSegmentMin. In TensorFlow the result depends
  on the position of the NaN in its segment, and on the processor.
- The EmbeddingSegments operators drop entries of segments >= num_segments; TensorFlow raises. After the rule
  `default-row`, entries of rows beyond the dense shape are dropped as well.
- Entries out of row order, which no SparseTensor should have, are an error in a lookup that the rule `default-row` has
  fused. TensorFlow's safe_embedding_lookup_sparse sorts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.graphs import graphs
from onnx_sparse.converters.tensor import Array
from onnx_sparse.schemas import DOMAIN

_OUT_OF_RANGE = ("out of range", "must be < num_segments", "is invalid")


@dataclass(frozen=True)
class IntendedDifferences:
    """Which differences a model may have.

    Attributes:
        extremes: Whether it computes maxima or minima by segment.
        lookups: Whether it looks up rows by segment.
    """

    extremes: bool
    lookups: bool

    @classmethod
    def of(cls, model: ModelProto) -> IntendedDifferences:
        """The differences that a model's operators allow."""
        used = {node.op_type for graph in graphs(model.graph) for node in graph.node if node.domain == DOMAIN}
        extremes = any(op_type.endswith(("SegmentMax", "SegmentMin")) for op_type in used)
        return cls(extremes, any(op_type.startswith("EmbeddingSegments") for op_type in used))

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
        if self.lookups and any(text in str(error) for text in _OUT_OF_RANGE):
            return " (by design: the model drops entries of segments that do not exist)"
        return ""
