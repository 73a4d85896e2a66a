"""Reasons of refusals without what differs from model to model, and what was judged of each."""

from __future__ import annotations

import re
from dataclasses import dataclass

TRUE = "true"
OURS = "ours"
RARE = "rare"

#: Reasons that are ours to cure: the census fails where one of them is as frequent.
MOST_OF_OURS = 5


@dataclass(frozen=True)
class Judgment:
    """What was judged of a reason.

    Attributes:
        roads: The roads on which it is given, as a regular expression.
        reason: The reason, in its normal form, as a regular expression.
        verdict: `true`: the source's own program refuses or leaves it undefined, or neither standard ONNX nor the
            domain can say it. `rare`: decided, with the reason. `ours`: to be cured.
        why: Why.
        instead: What a user can do; empty if there is nothing but another model.
    """

    roads: str
    reason: str
    verdict: str
    why: str
    instead: str = ""

    def holds(self, road: str, reason: str) -> bool:
        """Whether this is of a reason."""
        return re.fullmatch(self.roads, road) is not None and re.search(self.reason, reason) is not None


#: What differs from one refusal to the next, and what stands for it.
_DIFFERENT = (
    (r"'[^']*'", "'…'"),
    (r"\b\w+\.json\b|(?<!\w)/[\w./-]+", "…"),
    (r"\[[^\[\]]*\]", "[…]"),
    (r"\([^()]*\)", "(…)"),
    (r"-?\b\d+(\.\d+)?(e[+-]?\d+)?\b", "N"),
)


def normal(message: str) -> str:
    """A reason without names, shapes, numbers and paths, in one line.

    >>> normal("'b/Pad' of int8[2, 3] has 4 pads; 6 expected")
    "'…' of int8[…] has N pads; N expected"
    """
    reason = " ".join(message.split())
    for pattern, stands in _DIFFERENT:
        reason = re.sub(pattern, stands, reason)
    return reason


def judged(road: str, reason: str, judgments: tuple[Judgment, ...]) -> Judgment | None:
    """The first judgment of a reason; None if nobody has judged it."""
    return next((judgment for judgment in judgments if judgment.holds(road, reason)), None)
