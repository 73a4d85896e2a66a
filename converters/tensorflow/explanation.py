"""What a conversion reports about itself."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_sparse.converters.rewriting.explanation import Rewriting


@dataclass(frozen=True, kw_only=True)
class Explanation(Rewriting):
    """How a model came about.

    Attributes:
        source_nodes: The nodes of TensorFlow's graph that compute something and that the outputs need.
    """

    source_nodes: int
