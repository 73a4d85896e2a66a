"""Runs ONNX's backend tests through OpenVINO's frontend and this project's converter.

    python tests/zoo/onnx_backend_suite.py [-k PATTERN] [--record FILE]

OpenVINO reads the ONNX model of each test and saves it as an IR; the IR is converted back to ONNX, and the two are run
on the test's inputs. A test is

    not read    OpenVINO does not read or run it
    equal       both give the same
    refused     the converter refuses the IR
    as ONNX     the conversion gives what ONNX's test wants, and OpenVINO does not
    wrong       the conversion does not run, or gives what neither OpenVINO nor ONNX's test gives
    exception   so it is with a test that is listed as an exception, with the reason

The exit status is 1 if a test is wrong.

With onnx 1.23.2, OpenVINO 2026.4.1 and ONNX Runtime 1.32, of 1884 tests 1435 are equal, 26 as ONNX, 72 refused,
5 exceptions, none is wrong, and 346 are not read.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)  # `zoo` is a package of the tests

from support.openvino_runs import outputs_of  # noqa: E402
from zoo.ir_cases import EXACT, Array, RefusedError, difference, run_converted  # noqa: E402
from zoo.isolated_cases import Suite, Tell  # noqa: E402

_SHIFT = "OpenVINO divides by a power of two, which is beyond the type for such a shift"

#: The tests that are meant to differ, and why.
EXCEPTIONS = {
    **{
        f"test_bitshift_right_{dtype}_{kind}": _SHIFT
        for dtype in ("int8", "int32")
        for kind in ("shift_ge_width", "negative_shift")
    },
    "test_div_int32_trunc": "the IR says that the quotient is rounded down, of which the converter warns",
}


def cases() -> Mapping[str, Any]:
    """ONNX's tests that have a model and data, by name."""
    import onnx.backend.test.loader as loader
    import openvino  # noqa: F401  # here once, instead of in each process

    import onnx_sparse  # noqa: F401

    found = [case for kind in ("node", "simple", "light") for case in loader.load_model_tests(kind=kind)]
    return {case.name: case for case in found if case.model is not None and case.data_sets}


def examine(case: Any, tell: Tell) -> tuple[str, str]:
    """The outcome of a test, and its reason."""
    tell("not read", "OpenVINO's process ends")
    with tempfile.TemporaryDirectory() as folder:
        outcome, reason = _outcome(case, Path(folder) / "model.xml", tell)
    if outcome == "wrong" and case.name in EXCEPTIONS:
        return "exception", EXCEPTIONS[case.name]
    return outcome, reason


def _outcome(case: Any, path: Path, tell: Tell) -> tuple[str, str]:
    import openvino
    from onnx import save

    given, expected = case.data_sets[0]
    try:
        save(case.model, path.with_suffix(".onnx"))
        core = openvino.Core()
        openvino.save_model(core.read_model(path.with_suffix(".onnx")), path, compress_to_fp16=False)
        source = core.read_model(path)
        names = [value.name for value in case.model.graph.input]
        batch = _batch(dict(zip(names, map(_array, given), strict=False)), source)
        wanted = outputs_of(core.compile_model(source, "CPU", EXACT), dict(enumerate(batch)))
    except Exception as error:  # whatever OpenVINO raises
        return "not read", type(error).__name__
    tell("wrong", "the process ends")
    operators = ", ".join(sorted({node.op_type for node in case.model.graph.node}))
    try:
        results = run_converted(path, batch)
    except RefusedError as error:
        return "refused", str(error)
    except Exception as error:  # whatever ONNX Runtime raises
        return "wrong", f"{operators}: does not run: {' '.join(str(error).split())[:300]}"
    told = difference(wanted, results)
    if told is None:
        return "equal", ""
    if difference([*map(_array, expected)], results) is None:
        return "as ONNX", operators
    return "wrong", f"{operators}: {told}"


def _batch(feeds: Mapping[str, Array], source: Any) -> list[Array]:
    """The inputs of OpenVINO's model, which lacks those without elements, and may call one by another name."""
    if len(source.inputs) == len(feeds):
        return list(feeds.values())
    return [feeds[next(iter(port.get_names() & feeds.keys()))] for port in source.inputs]


def _array(value: Any) -> Array:
    """A value of a test, which is a TensorProto if numpy lacks its type."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


SUITE = Suite(
    program="python tests/zoo/onnx_backend_suite.py",
    description=__doc__,
    cases=cases,
    examine=examine,
    outcomes=("equal", "as ONNX", "refused", "exception", "wrong", "not read"),
    wrong="wrong",
    silent=("equal", "not read"),
    summarized=("refused", "as ONNX", "exception", "not read"),
)

if __name__ == "__main__":
    sys.exit(SUITE.main())
