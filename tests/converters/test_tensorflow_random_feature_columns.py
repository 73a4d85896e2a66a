"""A few random models of feature columns behind parsers; `tests/random_feature_columns.py` runs as many as you like."""

from __future__ import annotations

import pytest

pytest.importorskip("tf_keras")

from random_feature_columns import examine

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [3, 5, 12, 22])
def test_equals_tensorflow(seed):
    finding, compared = examine(seed)
    assert finding is None, str(finding)
    assert compared
