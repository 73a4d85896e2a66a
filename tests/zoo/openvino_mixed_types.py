"""Runs OpenVINO's operators with operands of two float types, where it takes them, through this project's converter.

    python tests/zoo/openvino_mixed_types.py [-k PATTERN] [--record FILE]

The first static case of each operator in the operator suite, once for each float input and once for all of them, with
these as float16, or as double while others are not, and the operator's constants as they are. The outcomes are those of
tests/zoo/openvino_operator_suite.py.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)  # `zoo` is a package of the tests

import numpy as np  # noqa: E402
from support.openvino_models import Case  # noqa: E402
from zoo import openvino_operator_suite, operators  # noqa: E402


def cases() -> Mapping[str, Any]:
    """The cases by name."""
    import openvino  # noqa: F401  # here once, instead of in each process

    warnings.simplefilter("ignore")
    first: dict[str, Any] = {}
    for name, case in operators.cases().items():
        if not case.dynamic:
            first.setdefault(name.split()[0], case)
    return {
        f"{name} {kind.__name__} {','.join(map(str, places))}": changed(case, places, kind)
        for name, case in first.items()
        for kind in (np.float16, np.float64)
        for places in chosen(case)
        if kind is np.float16 or len(places) < len(chosen(case)) - 1
    }


def chosen(case: Any) -> set[tuple[int, ...]]:
    """The inputs of floats, each alone and all together."""
    floats = [k for k, x in enumerate(case.inputs) if x.dtype == np.float32]
    return {*((k,) for k in floats), tuple(floats)} - {()}


def changed(case: Any, places: tuple[int, ...], kind: Any) -> Case:
    """A case with some inputs of another type."""
    return Case(case.op, case.build, *(x.astype(kind) if k in places else x for k, x in enumerate(case.inputs)))


SUITE = replace(
    openvino_operator_suite.SUITE,
    program="python tests/zoo/openvino_mixed_types.py",
    description=__doc__,
    cases=cases,
)

if __name__ == "__main__":
    sys.exit(SUITE.main())
