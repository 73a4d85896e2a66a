"""A draw of each verb for each element type on each of its roads; `python -m verbs` draws as many as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from verbs import declared
from verbs.engine import Report, examine

_LOWERING = Path(__file__).resolve().parents[2] / "converters" / "writing" / "lowering"


@pytest.mark.filterwarnings("ignore:.*m_pythondiv:UserWarning")
@pytest.mark.parametrize("verb", sorted(declared()))
def test_verb(verb):
    """All roads give what the verb means, and take at least one element type."""
    report = Report()
    for road in declared()[verb].roads:
        before = report.counts["equal"]
        examine(verb, road, 0, report)
        assert report.counts["equal"] > before or report.wrong, f"{road} refuses all: {[*report.refused]}"
    assert report.wrong == []
