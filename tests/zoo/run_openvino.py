"""Builds models of public packages, saves them as OpenVINO IRs, converts these and compares them with OpenVINO."""

from __future__ import annotations

import datetime
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)  # `zoo` is a package of the tests

from zoo.command import Outcome, Zoo  # noqa: E402
from zoo.ir_examination import examine  # noqa: E402
from zoo.ir_sources import BATCHES  # noqa: E402
from zoo.registry import irs  # noqa: E402

_SIGNS = {"equal": "=", "differs": "differs", "fails": "fails", "OpenVINO refuses": "-", "nearer": "≈"}

_HELP = """\
examples:
  python tests/zoo/run_openvino.py --list                          the models, and the environment that each needs
  python tests/zoo/run_openvino.py --model 'timm/*'                some of them
  python tests/zoo/run_openvino.py --json zoo.json --page          all of them; writes docs/openvino_models.md

Each model is built with random weights, converted by OpenVINO and saved as an IR, converted to ONNX, and run in
OpenVINO and in ONNX Runtime on batches of two, one and five rows. "=" is equal, "-" is a batch that OpenVINO itself
refuses. "≈" differs, and ONNX Runtime is nearer to what torch computes in float64 than OpenVINO is; the outcome of
such a model is "rounding". A model that `verify` does not call equal counts as wrong, too. The exit status is 1 if a
model is wrong, and 2 for a wrong command.
"""


def _columns(result: Outcome) -> Mapping[str, str]:
    return {
        "model": result.name,
        "outcome": result.outcome,
        **{kind: _SIGNS[result.batches[kind]] if kind in result.batches else "" for kind in BATCHES},
        "`--verify`": f"{result.verdict} ({result.verified_batches})" if result.verdict else "",
        "nodes": str(result.nodes or ""),
    }


def _summary(results: Sequence[Outcome]) -> str:
    verified = sum(result.verdict == "ok" for result in results)
    return f'`--verify` says "ok" of {verified}.'


def _heading() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("openvino", "onnxruntime"))
    return f"""\
# OpenVINO models

Written by `python tests/zoo/run_openvino.py --page` on {datetime.date.today()} with {packages} on {platform.machine()}.
Each model of torch or Keras is built with random weights, converted by OpenVINO, saved as an IR, converted to ONNX, and
compared with OpenVINO, computing in float32, on batches of two, one and five rows. "=" is equal, and "-" is a batch
that OpenVINO itself refuses. "≈" is a batch in which the two differ, and ONNX Runtime is nearer than OpenVINO to torch
in float64. The column `--verify` has its verdict on inputs that it generates, and the number of compared batches with
rows in parentheses.

These are the known reasons for wrong results. In nncf/Bert quantized, the first layer that differs is a FakeQuantize:
one number of 2240 rounds to the other side of a step, while its inputs agree to the last places. In ssdlite, boxes
whose scores agree to seven digits come in another order; torch itself has a third order. raft_small and, in the batch
of `--verify`, crossvit differ by 2e-6 and less.

Other tests run OpenVINO's operators and ONNX's tests one by one. The first lines of
`tests/zoo/openvino_operator_suite.py` and `tests/zoo/onnx_backend_suite.py` have the numbers of equal results.
"""


ZOO = Zoo(__file__, __doc__, _HELP, irs, examine, Outcome, _columns, _summary, "openvino_models.md", _heading)

if __name__ == "__main__":
    sys.exit(ZOO.main())
