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


EXPECTED: tuple[Expected, ...] = (
    Expected("addmv", WRONG, "of no rows, torch gives the shape of what is added to, not that of the sum"),
    Expected("sum_to_size", WRONG, "where no axis is summed, torch keeps the type that sums do not keep"),
    Expected(
        "cumsum|logcumsumexp|trapz|add(m|b|bm)m.*|baddbmm|bmm|mv",
        WRONG,
        "sums of the largest numbers overflow by order",
    ),
    Expected("unique", WRONG, "several NaN along an axis"),
    Expected("div_floor_rounding", WRONG, "quotients of half floats beyond their largest number"),
    Expected("index_reduce_prod", WRONG, "products overflow or not by their order"),
    Expected("bucketize", WRONG, "boundaries that are not in order"),
    Expected("(std|var)(_mean)?(_unbiased)?", WRONG, "sums of the largest numbers overflow, and torch updates a mean"),
    Expected("_unsafe_masked_index.*", CAUGHT, "indices of no rows; torch's own compilers write the operator"),
    Expected("unflatten", CAUGHT, "sizes of 0 that are constants"),
    Expected("isclose|nansum|xlogy|gradient", CAUGHT, "torch's translation has no cast of bools"),
    Expected("geometric|multinomial", CAUGHT, "random integers that are the same in several runs, or of no rows"),
)

#: The outcomes that are faults, unless they are expected.
FAULTS = frozenset((CAUGHT, FAILS, WRONG, "dies"))
