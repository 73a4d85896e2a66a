"""Some random programs; `python -m census.programs` draws others."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the extra `torch` is not installed")

from census.expected import FAULTS
from census.programs import programs
from census.walk import NOT_OURS, REFUSED, walk


def test_programs() -> None:
    found = list(walk(programs(0, 0, 16)))
    assert len(found) == 16
    assert [(each.case.name, each.reason) for each in found if each.outcome in {*FAULTS, REFUSED, NOT_OURS}] == []


def test_a_seed_draws_the_same_again() -> None:
    one, other = (programs(1, 5, 3) for _ in range(2))
    assert [case.label for case in one] == [case.label for case in other]
    assert all(len(case.label.split(" > ")) >= 3 for case in one)
