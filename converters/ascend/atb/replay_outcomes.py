"""What a replay of a layer found: the outcome of each operation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from onnx_sparse.converters.ascend.atb.comparison import Comparison
from onnx_sparse.converters.ascend.atb.runs import Run


@dataclass(frozen=True)
class Outcome:
    """What became of one operation, or of the results of a graph.

    Attributes:
        operation: Its name.
        op_type: Its type.
        comparisons: Its results.
        reason: Why results are not compared; "" if all are.
        resembles: The known mistakes that have the NPU's results, if these differ: "attention without the mask".
        files: The files of its results, if it cannot be computed here.
        failed: Whether it should have been compared, and could not be: a malformed file, or a kernel's error.
    """

    operation: str
    op_type: str
    comparisons: tuple[Comparison, ...] = ()
    reason: str = ""
    failed: bool = False
    resembles: tuple[str, ...] = ()
    files: tuple[Path | None, ...] = ()

    @property
    def verdict(self) -> str:
        """`FAILED`, `not compared`, or the worst verdict on its results."""
        if self.failed:
            return "FAILED"
        verdicts = {comparison.verdict for comparison in self.comparisons}
        return next((v for v in ("DIFFERS", "ok", "equal") if v in verdicts), "not compared")

    @property
    def excess(self) -> float:
        """Its largest error, relative to the tolerance."""
        return max((comparison.excess for comparison in self.comparisons), default=math.nan)


@dataclass(frozen=True)
class Replay:
    """A layer that was run.

    Attributes:
        run: What was run.
        outcomes: Its operations in execution order, and the graphs in it after the last of their operations.
        notes: What the dump shows and no file says.
    """

    run: Run
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]

    @property
    def comparisons(self) -> list[Comparison]:
        """Its tensors in execution order."""
        return [comparison for outcome in self.outcomes for comparison in outcome.comparisons]
