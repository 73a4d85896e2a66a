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


_LARGE = r"float\d+ -?(1e30|largest|lowest|inf).*"

EXPECTED: tuple[Expected, ...] = (
    Expected("ReduceL2", _LARGE, "squares overflow, as in TensorFlow"),
    Expected("Mean", r"float\d+ (largest|lowest), (largest|lowest)", "the sum overflows, as in numpy"),
    Expected("Conv|ConvTranspose", _LARGE, "a sum overflows or not by its order"),
    Expected("(Instance|Layer|Batch)Normalization", _LARGE, "squares overflow by the order of sums"),
    Expected("LogSoftmax", r"float32 20", "the logarithm of nearly 1 has the digits of the sum of powers, as in torch"),
    Expected("Resize", r"float\d+ (NaN|-?inf), .*", "the evaluator multiplies neighbors by weights of 0"),
    Expected("LpPool|AveragePool", r"float\d+ NaN", "the evaluator drops NaN"),
    Expected("Swish", "float32 -90", "the Sigmoid is below the normal numbers, as in torch"),
    Expected("HardSwish", r"float64 .*", "its sixth is an attribute, which is a float"),
    Expected("ReduceL1", "uint64 largest, axis .", "uint64 is summed as int64, which has a sign; no source has it"),
)
