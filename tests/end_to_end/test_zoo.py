"""Some models of the zoos that need nothing beyond the extras; `tests/zoo/run.py` and `run_openvino.py` examine all."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from zoo.examination import examine
from zoo.inputs import KINDS
from zoo.ir_examination import examine as examine_ir
from zoo.registry import EXTRAS, entries, irs

QUICK = [entry for entry in entries().values() if entry.quick]
QUICK_IRS = [entry for entry in irs().values() if entry.quick]


def test_enough():
    assert len(QUICK) >= 25
    assert len(entries()) >= 120
    assert len(QUICK_IRS) >= 5
    assert len(irs()) >= 102
    assert {entry.environment for entry in QUICK + QUICK_IRS} == {EXTRAS}


@pytest.mark.slow
@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: entry.name)
def test_equals_tensorflow(entry):
    examined = examine(entry, thorough=False)
    assert examined.outcome == "equal", examined
    assert set(examined.batches.values()) <= {"equal", "TensorFlow refuses"}
    assert len(examined.batches) == len(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("entry", QUICK_IRS, ids=lambda entry: entry.name)
def test_equals_openvino(entry):
    pytest.importorskip("openvino")
    examined = examine_ir(entry)
    assert (examined.outcome, examined.verdict) == ("equal", "ok"), examined
