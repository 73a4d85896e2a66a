"""Every kind of fault of ONNX Runtime on every road that can write it, drawn at random.

`python -m faults --models 10000` in the folder `tests` draws more.
"""

from __future__ import annotations

import numpy as np
import pytest

from faults.examination import examine, is_lacking
from faults.patterns import PATTERNS
from faults.roads import ROADS

NEEDED = {"tensorflow": "tensorflow", "torch": "onnxscript", "openvino": "openvino", "onnx": "onnx"}

#: How many models are drawn of each kind, half as many by day: conversions from TensorFlow and torch take a second
#: and more.
COUNTS = {"tensorflow": 1, "torch": 1, "openvino": 4, "onnx": 4}


def _cases():
    for road in ROADS:
        for pattern in PATTERNS:
            if not is_lacking(ROADS[road], pattern(np.random.default_rng(0))):
                yield pytest.param(road, pattern, id=f"{road}-{pattern.__name__}")


@pytest.mark.slow
@pytest.mark.parametrize(("road", "pattern"), _cases())
def test_no_death_and_no_difference(road, pattern, one_of):
    pytest.importorskip(NEEDED[road])
    report = examine(road, COUNTS[road] // one_of(2) or 1, seed=0, patterns=[pattern])
    assert report.found == []
    assert not report.refused
    assert report.runs


def test_a_fault_is_found(monkeypatch):
    """Without guards, the program finds what they prevent."""
    monkeypatch.setattr("onnx_sparse.converters.pipeline.passes.guard", lambda model, **options: [])
    report = examine("onnx", 36, seed=0)
    assert any("ends the process" in line for line in report.found)
    assert any("differs" in line for line in report.found)
