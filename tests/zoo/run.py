"""Builds models of public packages, converts them and compares them with TensorFlow."""

from __future__ import annotations

import datetime
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)  # `zoo` is a package of the tests

from zoo.command import Zoo  # noqa: E402
from zoo.examination import Examined, examine  # noqa: E402
from zoo.inputs import KINDS  # noqa: E402
from zoo.registry import entries  # noqa: E402

_SIGNS = {"equal": "=", "differs": "differs", "fails": "fails", "TensorFlow refuses": "-"}

_HELP = """\
examples:
  python tests/zoo/run.py --list                       the models, and the environment that each needs
  python tests/zoo/run.py --environment extras         those that need nothing but the extras
  python tests/zoo/run.py --model 'deepctr/*'          some of them
  python tests/zoo/run.py --json zoo.json --page       all of them; writes docs/tensorflow_models.md

Each model is built with random weights, saved as a SavedModel, converted, and run in TensorFlow and in ONNX Runtime on
a batch of each kind. "=" is equal, "-" is a batch that TensorFlow itself refuses. A model without an equal batch that
has rows counts as wrong. The exit status is 1 if a model is wrong, and 2 for a wrong command.
"""


def _columns(result: Examined) -> Mapping[str, str]:
    times = ["" if time is None else f"{time:.2f}" for time in (result.tensorflow_ms, result.onnx_ms)]
    return {
        "model": result.name,
        "outcome": result.outcome,
        **{kind: _SIGNS[result.batches[kind]] if kind in result.batches else "" for kind in KINDS},
        "`--verify`": f"{result.verdict} ({result.verified_batches})" if result.verdict else "",
        "nodes": str(result.nodes or ""),
        "TensorFlow ms": times[0],
        "ONNX Runtime ms": times[1],
    }


def _summary(results: Sequence[Examined]) -> str:
    timed = [r for r in results if r.tensorflow_ms and r.onnx_ms]
    faster = sum(r.onnx_ms <= r.tensorflow_ms for r in timed if r.onnx_ms and r.tensorflow_ms)
    return f"{faster} of {len(timed)} run at least as fast as TensorFlow."


def _heading() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("tensorflow", "onnxruntime"))
    return f"""\
# TensorFlow models

Written by `python tests/zoo/run.py --page` on {datetime.date.today()} with {packages} on {platform.machine()}.
Each model is built with random weights, saved as a SavedModel, converted, and compared with TensorFlow on five batches:
of several rows, of one row, of no rows, with rows whose features are all empty, and of extremes (one very long row,
the smallest and largest ids). "=" is equal, "-" is a batch that TensorFlow itself refuses. The column `--verify`
has its verdict on inputs that it generates, and the number of compared batches with rows in parentheses. Times are
medians of runs of a batch of 256 rows or nodes, in one process.
"""


ZOO = Zoo(__file__, __doc__, _HELP, entries, examine, Examined, _columns, _summary, "tensorflow_models.md", _heading)

if __name__ == "__main__":
    sys.exit(ZOO.main())
