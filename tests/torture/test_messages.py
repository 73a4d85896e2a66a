"""A few mutated messages; `tests/torture/messages.py` mutates as many as you like."""

from __future__ import annotations

import pytest
from torture.messages import fuzz

from onnx_sparse.sessions.runtime import available_backends


@pytest.mark.skipif("native" not in available_backends(), reason="the native library is not built")
def test_mutated_messages():
    done, faults = fuzz(seed=0, count=1_000, seconds=60)
    assert not faults, faults[0]
    assert min(done.values()) > 50
    assert len(done) == 4
