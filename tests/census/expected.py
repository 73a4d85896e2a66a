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
    Expected("cumsum|addbmm|stft|lerp", WRONG, "sums of the largest numbers overflow"),
    Expected("remainder|logaddexp2", WRONG, "quotients and powers of the largest numbers overflow"),
    Expected("logsumexp", WRONG, "the largest of elements among which is NaN"),
    Expected("nn_functional_scaled_dot_product_attention", CAUGHT, "values without columns"),
    Expected("nn_functional_cross_entropy", CAUGHT, "no rows or classes"),
    Expected("(softmax|nn_functional_softmin)_with_dtype|trunc", CAUGHT, "no kernel for these types"),
    Expected("unique", WRONG, "several NaN along an axis"),
    Expected("div_floor_rounding", WRONG, "quotients of half floats beyond their largest number"),
    Expected("index_reduce_prod|cumprod", WRONG, "products overflow or not by their order"),
    Expected("bucketize", WRONG, "boundaries that are not in order"),
    Expected("(std|var)(_mean)?(_unbiased)?", WRONG, "sums of the largest numbers overflow, and torch updates a mean"),
)

#: The outcomes that are faults, unless they are expected.
FAULTS = frozenset((CAUGHT, FAILS, WRONG, "dies"))
