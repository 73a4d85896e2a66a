"""Branches for data with a NaN."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import onnx_sparse


@pytest.mark.parametrize("values", ["0, 1, 0", "0, nan, 0"])
@pytest.mark.parametrize("read", ["x", "computed", "inner"])
@pytest.mark.parametrize("outputs", ["a", "a, first", "a, first, inverse, counts"])
@pytest.mark.parametrize("taken", [True, False])
def test_unique_of_a_constant_in_a_branch(values: str, read: str, outputs: str, taken: bool) -> None:
    """ONNX Runtime gives no value at all where an If in a branch has a condition that is constant, or computed from
    constants, within the branch or around it."""
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g (bool c) => (float[n] y) <float[3] x = {{{values}}}> {{
          computed = Add (x, x)
          y = If (c) <
            then_branch = t () => (float[k] a) {{ inner = Add (x, x)  {outputs} = Unique ({read}) }},
            else_branch = e () => (float[k] b) {{ b = Neg ({read.replace("inner", "computed")}) }}>
        }}"""
    )
    made = onnx_sparse.convert(model, fuse=True).model
    x = np.array(values.split(", "), np.float32) * (1 if read == "x" else 2)
    (got,) = onnx_sparse.InferenceSession(made).run(None, {"c": np.array(taken)})
    np.testing.assert_array_equal(got, np.unique(x) if taken else -x)
