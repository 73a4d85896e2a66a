"""What the census finds and what stays, with the reasons."""

from __future__ import annotations

import re
from dataclasses import dataclass

from census.walk import CAUGHT, FAILS, WRONG


@dataclass(frozen=True)
class Expected:
    """Findings that are known.

    Attributes:
        operators: The operators, as a regular expression.
        outcome: What became of the calls.
        reason: Why.
        calls: What the calls are named, as a regular expression.
    """

    operators: str
    outcome: str
    reason: str
    calls: str = ".*"

    def holds(self, operator: str, outcome: str, call: str) -> bool:
        """Whether a finding is one of these."""
        return (
            outcome == self.outcome
            and re.fullmatch(self.operators, operator) is not None
            and re.fullmatch(self.calls, call) is not None
        )


EXPECTED: tuple[Expected, ...] = ()

#: The outcomes that are faults, unless they are expected.
FAULTS = frozenset((CAUGHT, FAILS, WRONG, "dies"))
