"""A few planted faults; `python -m support.planted_faults` plants as many as you like."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

pytest.importorskip("openvino")
pytest.importorskip("torch")

from support import planted_answers
from support.planted_fault_sources import Right, from_openvino, from_torch
from support.planted_faults import _runner, examine

from onnx_sparse.converters.onnx import verify

_CHOSEN = ("torch/EmbeddingBag mean", "torch/bucketize")

_HEAD = """<ir_version: 10, opset_import: ["" : 20, "onnx_sparse" : 1]> g """

#: Models with numbers of several magnitudes, of segments, integers and text.
_MODELS = {
    "tiny probabilities": "(float[n,3] x) => (float[n,3] y) <float part = {1e-7}> {s = Softmax (x) y = Mul (s, part)}",
    "columns of two magnitudes": """(float[n,2] x) => (float[n,2] y) <float[2] w = {1e6, 0.01}>
        {e = Sigmoid (x) y = Mul (e, w)}""",
    "segments found in the data": """(float[n,2] x, int64[n] ids) => (float[s,2] y) <int64 open = {-1}>
        {y = onnx_sparse.SegmentSum (x, ids, open)}""",
    "rows of a table": """(int64[n] ids) => (float[n,2] y) <float[4,2] t = {1, 2, 3, 4, 5, 6, 7, 8}>
        {y = Gather (t, ids)}""",
    "differences from a mean": """(float[n,5] x) => (float[n,5] y) <int64[1] last = {1}, float far = {300.0}>
        {z = Add (x, far) m = ReduceMean <keepdims = 1> (z, last) y = Sub (z, m)}""",
    "integers": "(float[n,4] x) => (int64[n] y) {y = ArgMax <axis = 1, keepdims = 0> (x)}",
    "text": """(string[n] x) => (string[n] y) <string[1] a = {"a"}, string[1] b = {"b"}>
        {e = Equal (x, a) y = Where (e, b, x)}""",
}


def _right(name: str) -> Right:
    model = onnx.parser.parse_model(_HEAD + _MODELS[name])
    return Right(name, model, lambda wrong: verify(model, wrong))


@pytest.mark.parametrize("name", _MODELS)
def test_wrong_answers_are_found_and_right_ones_are_not(name):
    right = _right(name)
    outcomes = [*planted_answers.examine(right, _runner(right.model))]
    assert not [outcome for outcome in outcomes if outcome[0] not in ("found", "no fault")]
    assert Counter(outcome for outcome, _ in outcomes)["found"] >= 5, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("source", [from_openvino, from_torch])
def test_faults_are_found_and_right_models_are_not(source):
    outcomes = [
        (right.name, *found)
        for right in source(_CHOSEN.__contains__)
        for found in examine(right, np.random.default_rng(0), 3)
    ]
    assert not [outcome for outcome in outcomes if outcome[1] in ("missed", "false alarm")]
    assert Counter(kind for _, kind, _ in outcomes)["found"] >= 3, outcomes
