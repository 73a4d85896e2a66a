"""ONNX Runtime's optimizer changes no answer of what our guards leave: a few hundred drawn graphs.

`python -m fusions` in the folder `tests` draws as many as you like.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

from fusions.known import KNOWN, Known
from fusions.walk import WRONG, differs, run, walk
from onnx_sparse.converters.onnxruntime.guards import GUARDS


def test_a_few_hundred_graphs():
    outcomes = [*walk(range(300))]
    assert [said for said in outcomes if said["kind"] in WRONG] == []
    assert Counter(said["kind"] for said in outcomes)["equal"] > 200


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.why)
def test_known_faults_are_there_still(known: Known):
    """Else they go from the list."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {known.smallest}')
    feeds = {"x": np.ones(known.shape, np.float32)}
    assert differs(run(model, feeds, optimized=False), run(model, feeds, optimized=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rewrite"),
    [
        ("ProductByVector", "MatMulTranspose"),
        ("ExpandToNothing", "ExpandElimination"),
        ("JoinedSizes", "ReshapeFusion"),
    ],
)
def test_without_its_guard_a_fault_is_found(name: str, rewrite: str):
    (omitted,) = (rule for rule in GUARDS if rule.__name__ == name)
    outcomes = (said["kind"] for said in walk(range(2000), [omitted], rewrite))
    assert "differs" in outcomes
