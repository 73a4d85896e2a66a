"""A small part of the soak in `soak.py`."""

from __future__ import annotations

import os

import pytest
from torture.soak import TOLERANCE, in_a_process

from onnx_sparse.sessions.runtime import available_backends

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs the memory of a process"),
]


@pytest.mark.parametrize("backend", available_backends())
@pytest.mark.parametrize(("kind", "count"), [("runs", 3000), ("sessions", 100)])
def test_memory_is_flat(backend: str, kind: str, count: int) -> None:
    result = in_a_process(kind, backend, count, seconds=120)
    assert result.count == count
    assert result.growth <= TOLERANCE, result.memory
