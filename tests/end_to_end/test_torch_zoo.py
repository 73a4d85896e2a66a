"""Some modules of the zoo that need torch alone; `tests/zoo/run_torch.py` examines all."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the extra `torch` is not installed")

from zoo.inputs import KINDS
from zoo.registry import EXTRAS, modules
from zoo.torch_examination import examine

QUICK = [entry for entry in modules().values() if entry.quick]


def test_enough():
    assert len(QUICK) >= 20
    assert len(modules()) >= 150
    assert {entry.environment for entry in QUICK} == {EXTRAS}


@pytest.mark.slow
@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: entry.name)
def test_equals_torch(entry):
    examined = examine(entry, verify=False, timed=False)
    assert examined.outcome == "equal", examined
    assert set(examined.batches.values()) <= {"equal", "torch refuses"}
    assert len(examined.batches) == len(KINDS)
