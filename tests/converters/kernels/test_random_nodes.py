"""Nodes of all types, ranks, modes and layouts: each runs and is right, or the conversion refuses it."""

from __future__ import annotations

import numpy as np
import pytest
from support.node_families import FAMILIES
from support.random_nodes import outcome

#: How many nodes of each family are drawn.
_COUNT = 40


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_a_node_runs_or_is_refused(family) -> None:
    wrong = []
    for seed in range(_COUNT):
        rng = np.random.default_rng(seed)
        drawn = family(rng)
        said = outcome(drawn, rng)
        if said.partition(":")[0] not in ("equal", "refused", "no reference"):
            wrong.append(f"{seed} {drawn.op_type}-{drawn.opset} {drawn.attributes}: {said}")
    assert wrong == []
