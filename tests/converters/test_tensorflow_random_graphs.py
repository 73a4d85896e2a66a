"""A few random graphs on tensors of any size; `tests/random_graphs.py` runs as many as you like."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from random_graphs import examine


@pytest.mark.parametrize("seed", range(40))
def test_equals_tensorflow(seed):
    finding, _ = examine(seed)
    assert finding is None, str(finding)
