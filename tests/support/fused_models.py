"""What the tests of fusing share: running a model and its fused form on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, parser

import onnx_sparse
from onnx_sparse.converters.rewriting import Rewriting
from onnx_sparse.schemas import DOMAIN

#: What the names of dtypes are in the text form of models, other than themselves.
TEXT_TYPES = {"float32": "float", "float64": "double"}

#: Rows that are added by ScatterElements: what a segment sum is in models that know no better.
SCATTERED_ROWS = """
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[s, 3] start, int64[k] ids, float[k, 3] rows) => (float[s, 3] output)
    <int64[1] axis = {1}>
    {
      shape = Shape (rows)
      columns = Unsqueeze (ids, axis)
      indices = Expand (columns, shape)
      output = ScatterElements <axis = 0, reduction = "add"> (start, indices, rows)
    }"""

#: A sum as torch's TorchScript exporter writes index_add: of rows with equal ids the last one wins.
LOST_ROWS = """
    <ir_version: 8, opset_import: ["" : 13], producer_name: "pytorch">
    g (float[s, 3] x, int64[k] ids, float[k, 3] rows) => (float[s, 3] output)
    <int64[1] axis = {1}>
    {
      sizes = Shape (x)
      zeros = ConstantOfShape (sizes)
      shape = Shape (rows)
      columns = Unsqueeze (ids, axis)
      indices = Expand (columns, shape)
      sums = ScatterElements (zeros, indices, rows)
      output = Add (x, sums)
    }"""


@dataclass
class Pair:
    """A model, and its fused form."""

    old: ModelProto
    new: ModelProto = field(init=False)
    explanation: Rewriting = field(init=False)

    def __post_init__(self) -> None:
        said: list[Rewriting] = []
        before = self.old.SerializeToString()
        self.new = onnx_sparse.fuse(self.old, explain=said.append)
        (self.explanation,) = said
        assert self.old.SerializeToString() == before
        self._sessions = [onnx_sparse.InferenceSession(model, _options()) for model in (self.old, self.new)]

    @classmethod
    def of(cls, text: str) -> Pair:
        """The pair of a model in onnx's text form."""
        return cls(parser.parse_model(text))

    @property
    def ours(self) -> list[str]:
        """The operators of the domain in the fused model."""
        return [node.op_type for node in self.new.graph.node if node.domain == DOMAIN]

    @property
    def reasons(self) -> dict[str, str]:
        """Why each rule did not fire."""
        return {attempt.rule: attempt.reason for attempt in self.explanation.declined}

    def results(self, feeds: Mapping[str, Any]) -> list[list[np.ndarray] | None]:
        """The outputs of both; None of one that refuses the inputs."""
        return [_results(session, feeds) for session in self._sessions]

    def agree(self, feeds: Mapping[str, Any]) -> list[np.ndarray]:
        """The outputs, which must be the same, as those of random whole numbers are to the bit."""
        old, new = self.results(feeds)
        assert old is not None
        assert new is not None
        for want, got in zip(old, new, strict=True):
            assert (want.dtype, want.shape) == (got.dtype, got.shape)
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(got, want)
        return new


def _options() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what the old model refuses is expected
    options.intra_op_num_threads = 1
    return options


def _results(session: Any, feeds: Mapping[str, Any]) -> list[np.ndarray] | None:
    try:
        return [np.asarray(value) for value in session.run(None, dict(feeds))]
    except Exception:  # whatever ONNX Runtime raises
        return None
