"""Builds modules of torch and of public packages, exports them and compares them with torch."""

from __future__ import annotations

import datetime
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)  # `zoo` is a package of the tests

from zoo.command import Zoo  # noqa: E402
from zoo.inputs import KINDS  # noqa: E402
from zoo.registry import modules  # noqa: E402
from zoo.torch_examination import ExaminedModule, examine  # noqa: E402

_SIGNS = {
    "equal": "=",
    "differs": "differs",
    "fails": "fails",
    "torch refuses": "-",
    "program refuses": "guarded",
    "program differs": "traced",
    "rounding": "≈",
}

_HELP = """\
examples:
  python tests/zoo/run_torch.py --list                       the modules, and the environment that each needs
  python tests/zoo/run_torch.py --environment extras         those that need torch alone
  python tests/zoo/run_torch.py --model 'pyg/*'              some of them
  python tests/zoo/run_torch.py --json zoo.json --page       all of them; writes docs/torch_models.md

Each module is built with random weights, exported with dynamic sizes, and run in torch and in ONNX Runtime on a batch
of each kind. "=" is equal, "-" is a batch that torch itself refuses, "guarded" one that only torch.export's program
refuses, and "traced" one of which that program makes what ONNX Runtime makes of it. "≈" differs, and ONNX Runtime is
about as near to what torch computes in float64 as torch is. A module without an equal batch that has rows counts as
wrong, and so does one that `verify` finds to differ. The exit status is 1 if a module is wrong, and 2 for a wrong
command.
"""


def _ratio(result: ExaminedModule) -> float | None:
    return result.onnx_ms / result.torch_ms if result.onnx_ms and result.torch_ms else None


def _columns(result: ExaminedModule) -> Mapping[str, str]:
    ratio = _ratio(result)
    return {
        "module": result.name,
        "outcome": result.outcome,
        **{kind: _SIGNS[result.batches[kind]] if kind in result.batches else "" for kind in KINDS},
        "`verify`": f"{result.verdict} ({result.verified_batches})" if result.verdict else "",
        "nodes": str(result.nodes or ""),
        "torch ms": f"{result.torch_ms:.2f}" if result.torch_ms else "",
        "time / torch": f"{ratio:.2f}" if ratio else "",
    }


def _summary(results: Sequence[ExaminedModule]) -> str:
    ratios = [ratio for ratio in map(_ratio, results) if ratio]
    if not ratios:
        return ""
    faster = sum(ratio <= 1 for ratio in ratios)
    median = statistics.median(ratios)
    return f"{faster} of {len(ratios)} run at least as fast as torch; the median takes {median:.2f}x the time of torch."


def _heading() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "onnxruntime"))
    return f"""\
# Torch modules

Written by `python tests/zoo/run_torch.py --page` on {datetime.date.today()} with {packages} on {platform.machine()}.
Each module is built with random weights, exported with dynamic sizes, and compared with torch on five batches: of
several rows, of one row, of no rows, with rows whose features are all empty (graphs without edges), and of extremes
(one very long row, the smallest and largest ids, many times). "=" is equal, and "-" is a batch that torch itself
refuses. "guarded" is a batch that the program of torch.export refuses, but the module does not. "traced" is a batch for
which the module takes another branch than the traced one. "≈" differs, but ONNX Runtime is about as near as torch
itself to torch in float64. The column `verify` has its verdict on inputs that it generates, and the number of compared
batches with rows in parentheses. Times are medians of runs of a batch of 256 rows or nodes with one thread each, in
turn.

"torch.export refuses" is a module that torch.export cannot trace in any way, or cannot decompose. Most of these modules
branch on values of their inputs.

The slowest modules are of two kinds. Functions that take less than 0.05 ms (`degree`, `one_hot`, pooling, sizes of the
data) take as long as the start of an ONNX Runtime run, 5 to 20 µs. The others have special reasons: `nearest neighbors`
computes distances from differences, which is more exact than torch's products of matrices; in SchNet, ONNX Runtime's
Softplus takes half the time; in SASRec, torch has a kernel for a whole encoder layer.
"""


ZOO = Zoo(__file__, __doc__, _HELP, modules, examine, ExaminedModule, _columns, _summary, "torch_models.md", _heading)

if __name__ == "__main__":
    sys.exit(ZOO.main())
