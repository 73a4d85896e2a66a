"""Runs ONNX files before and after `fuse`: onnx's own node tests, and files of other exporters.

    python tests/zoo/fused_suite.py [FOLDER ...] [-k PATTERN] [--record FILE]

A node test is judged by the results that onnx has for it, a file in one of the folders by what ONNX Runtime makes of it
before, on inputs that `verify` generates. A case is

    not run     ONNX Runtime runs it neither before nor after
    equal       both are right
    better      only the fused model is right
    refused     ONNX Runtime runs it before, and `fuse` refuses it
    exception   so it is with a case that is listed as an exception, with the reason
    worse       the fused model does not load, fails, or differs

The exit status is 1 if a case is worse. `fused_sources.py` writes files with skl2onnx, hummingbird, tf2onnx and torch's
older exporter.

With onnx 1.23.2 and ONNX Runtime 1.32, of onnx's 1884 tests 1535 are equal, 22 better, none is worse or refused, and
327 are not run. Of 226 files of skl2onnx 1.20 and torch 2.13's older exporter 221 are equal, none is worse, and 5 are
not run.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)  # `zoo` is a package of the tests

from zoo.ir_cases import difference  # noqa: E402
from zoo.isolated_cases import Suite, Tell  # noqa: E402

Array = np.ndarray[Any, Any]

#: The folders of the command line.
FOLDERS: list[Path] = []

#: The cases that are meant to differ, and why.
EXCEPTIONS: dict[str, str] = {}


def cases() -> Mapping[str, Any]:
    """onnx's tests that have a model and data, and the files in the folders of the command line, by name."""
    import onnx.backend.test.loader as loader
    import onnxruntime

    import onnx_sparse  # noqa: F401  # here once, instead of in each process

    onnxruntime.set_default_logger_severity(4)
    if FOLDERS:
        return {str(path): path for folder in FOLDERS for path in sorted(folder.rglob("*.onnx"))}
    found = [case for kind in ("node", "simple", "light") for case in loader.load_model_tests(kind=kind)]
    return {case.name: case for case in found if case.model is not None and case.data_sets}


def examine(case: Any, tell: Tell) -> tuple[str, str]:
    """The outcome of a case, and its reason."""
    tell("not run", "ONNX Runtime ends the process")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome, reason = _of_file(case, tell) if isinstance(case, Path) else _of_test(case, tell)
    if outcome == "worse" and case.name in EXCEPTIONS:
        return "exception", EXCEPTIONS[case.name]
    return outcome, reason


def _of_test(case: Any, tell: Tell) -> tuple[str, str]:
    from onnx_sparse import fuse

    given, expected = case.data_sets[0]
    feeds = dict(zip((value.name for value in case.model.graph.input), given, strict=False))
    before = _judged(case.model, feeds, expected)
    tell("worse", "the process ends after `fuse`")
    try:
        fused = fuse(case.model)
    except Exception as error:  # not the error of a user alone
        return ("not run" if before else "refused"), str(error).splitlines()[0]
    after = _judged(fused, feeds, expected)
    if not after:
        return ("better" if before else "equal"), before
    return ("not run" if before and after.startswith("fails") else "equal" if before == after else "worse"), after


def _judged(model: Any, feeds: Mapping[str, Any], expected: Any) -> str:
    """How a model is not right; empty if it is."""
    from onnx_sparse import InferenceSession

    try:
        results = InferenceSession(model).run(None, {name: value for name, value in feeds.items() if value is not None})
    except Exception as error:  # whatever ONNX Runtime raises
        return f"fails: {str(error).splitlines()[0]}"
    pairs = [(_arrays(want), _arrays(got)) for want, got in zip(expected, results, strict=True)]
    return next((found for want, got in pairs if (found := difference(want, got))), "")


def _arrays(value: Any) -> list[Array]:
    several = value if isinstance(value, list) else [value]
    return [np.asarray(each) for each in several if each is not None]


def _of_file(path: Path, tell: Tell) -> tuple[str, str]:
    from onnx import load

    from onnx_sparse.converters.onnx import convert, verify
    from onnx_sparse.converters.verification.comparison import Verdict

    before = _does_not_load(lambda: load(path))
    tell("worse", "the process ends after `fuse`")
    try:
        model = convert(path)
    except Exception as error:
        return ("not run" if before else "refused"), str(error).splitlines()[0]
    if after := _does_not_load(lambda: model):
        return ("not run" if before else "worse"), after
    if before:
        return "better", before
    records = verify(path, model)
    wrong = [f"{record.output}: {record.note}" for record in records if record.verdict is Verdict.DIFFERENT]
    if wrong:
        return "worse", wrong[0]
    if all(record.verdict in (Verdict.NOT_COMPARED, Verdict.REFUSED) for record in records):
        return "not run", records[0].note
    return "equal", ""


def _does_not_load(load: Callable[[], Any]) -> str:
    from onnx_sparse import InferenceSession

    try:
        InferenceSession(load())
    except Exception as error:  # whatever ONNX Runtime raises
        return str(error).splitlines()[0]
    return ""


SUITE = Suite(
    "python tests/zoo/fused_suite.py",
    __doc__,
    cases,
    examine,
    outcomes=("equal", "better", "worse", "refused", "exception", "not run"),
    wrong="worse",
    silent=("equal", "not run"),
    summarized=(),
)

if __name__ == "__main__":
    FOLDERS += [Path(text) for text in sys.argv[1:] if Path(text).is_dir()]
    sys.argv[1:] = [text for text in sys.argv[1:] if not Path(text).is_dir()]
    sys.exit(SUITE.main())
