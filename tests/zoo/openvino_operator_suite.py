"""Runs models of one OpenVINO operator each, of all its operator sets, through this project's converter.

    python tests/zoo/openvino_operator_suite.py [-k PATTERN] [--record FILE]

Each operator is built by OpenVINO's Python API with attributes and inputs that vary, once with static and once with
dynamic shapes, and saved as an IR; the IR is converted to ONNX, and the two are run. A case is

    not run     OpenVINO does not take or run it
    equal       both give the same
    refused     the converter refuses the IR
    fault       they differ, and OpenVINO's CPU plugin has a known fault in the operator
    wrong       the conversion does not run, or they differ

The exit status is 1 if a case is wrong.

With OpenVINO 2026.4.1 and ONNX Runtime 1.32, of 6346 cases 5987 are equal, 235 refused, 59 differ by a fault of
OpenVINO, none is wrong, and 65 are not run.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)  # `zoo` is a package of the tests

from support.openvino_runs import outputs_of  # noqa: E402
from zoo import operators  # noqa: E402
from zoo.ir_cases import EXACT, RefusedError, difference, run_converted  # noqa: E402
from zoo.isolated_cases import Suite, Tell  # noqa: E402


def cases() -> Mapping[str, Any]:
    """The cases by name."""
    import openvino  # noqa: F401  # here once, instead of in each process

    warnings.simplefilter("ignore")
    return operators.cases()


def examine(case: Any, tell: Tell) -> tuple[str, str]:
    """The outcome of a case, and its reason."""
    tell("not run", "OpenVINO's process ends")
    with tempfile.TemporaryDirectory() as folder:
        return _outcome(case, Path(folder), tell)


def _outcome(case: Any, folder: Path, tell: Tell) -> tuple[str, str]:
    import openvino

    from onnx_sparse.converters.openvino.ir import read_ir
    from onnx_sparse.converters.openvino.known_faults import FAULTS, faults_of

    try:
        path = case.save(folder)
        core = openvino.Core()
        compiled = core.compile_model(core.read_model(path), "CPU", EXACT)
        wanted = outputs_of(compiled, dict(enumerate(case.inputs)))
    except Exception as error:  # whatever OpenVINO raises
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return "not run", f"{case.op}: {lines[-1][:200] if lines else type(error).__name__}"
    tell("wrong", f"{case.op}: the process ends")
    try:
        told = difference(wanted, run_converted(path, case.inputs))
    except RefusedError as error:
        return "refused", str(error)
    except Exception as error:  # whatever ONNX Runtime raises
        told = f"does not run: {' '.join(str(error).split())[:300]}"
    if told is None:
        return "equal", ""
    general = {f"every operator: {fault.reason}" for fault in FAULTS if not fault.op_type}
    faults = [fault for fault in faults_of(read_ir(path)) if fault not in general]
    return ("fault", f"{'; '.join(faults)}") if faults else ("wrong", told)


SUITE = Suite(
    program="python tests/zoo/openvino_operator_suite.py",
    description=__doc__,
    cases=cases,
    examine=examine,
    outcomes=("equal", "refused", "fault", "wrong", "not run"),
    wrong="wrong",
    silent=("equal", "not run", "refused"),
    summarized=("refused", "fault", "not run"),
)

if __name__ == "__main__":
    sys.exit(SUITE.main())
