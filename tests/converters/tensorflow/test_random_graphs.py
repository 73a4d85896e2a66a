"""A few random graphs on tensors of any size; `python -m support.random_graphs` runs as many as you like."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from support.random_graphs import examine


@pytest.mark.parametrize("seed", range(40))
def test_equals_tensorflow(seed):
    finding, _ = examine(seed)
    assert finding is None, str(finding)
