"""Some models of the zoo that need nothing beyond the extras; `tests/zoo/run.py` examines them all."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from zoo.examination import examine
from zoo.inputs import KINDS
from zoo.registry import EXTRAS, entries

QUICK = [entry for entry in entries().values() if entry.quick]


def test_enough():
    assert len(QUICK) >= 25
    assert len(entries()) >= 120
    assert {entry.environment for entry in QUICK} == {EXTRAS}


@pytest.mark.slow
@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: entry.name)
def test_equals_tensorflow(entry):
    examined = examine(entry, thorough=False)
    assert examined.outcome == "equal", examined
    assert set(examined.batches.values()) <= {"equal", "TensorFlow refuses"}
    assert len(examined.batches) == len(KINDS)
