"""What differs after the passes of every road, and why it stays."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    """Differences that are known.

    Attributes:
        operators: The operators, as a regular expression.
        values: What the cases are called, as a regular expression.
        reason: Why they stay.
    """

    operators: str
    values: str
    reason: str

    def holds(self, op_type: str, label: str) -> bool:
        """Whether a difference is one of these."""
        return bool(re.fullmatch(self.operators, op_type) and re.fullmatch(self.values, label))


EXPECTED: tuple[Expected, ...] = ()
