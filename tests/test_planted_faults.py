"""A few planted faults; `python -m support.planted_faults` plants as many as you like."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("openvino")
pytest.importorskip("torch")

from support.planted_fault_sources import from_openvino, from_torch
from support.planted_faults import examine

_CHOSEN = ("torch/EmbeddingBag mean", "torch/bucketize")


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
