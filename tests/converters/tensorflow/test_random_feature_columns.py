"""A few random models of feature columns and parsers; `python -m support.random_feature_columns` runs more."""

from __future__ import annotations

import pytest

pytest.importorskip("tf_keras")

from support.random_feature_columns import examine

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [3, 5, 12, 22])
def test_equals_tensorflow(seed):
    finding, compared = examine(seed)
    assert finding is None, str(finding)
    assert compared
