"""Runs the tests of the tensorflow-onnx project through this project's converter.

    git clone https://github.com/onnx/tensorflow-onnx
    python tests/zoo/tensorflow_onnx_suite.py tensorflow-onnx [-k EXPRESSION]

Its tests give a function, inputs and names of outputs to one method, which converts the function and compares its
outputs with TensorFlow's. Here that method converts with this project first. Only where that fails is the test run as
it is written, with the installed tf2onnx: one that fails there too is skipped, so a failure is one that tf2onnx does
not have. What a test asserts about tf2onnx's own graph, and its options for layouts and large models, are left out.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

#: Options that are tf2onnx's own.
_OPTIONS = ("process_args", "onnx_feed_dict", "large_model")

#: Options that say how a test compares.
_COMPARISON = {"rtol": 1e-7, "atol": 1e-5, "mtol": None, "check_value": True, "check_shape": True, "check_dtype": True}


class Suite:
    """A pytest plugin."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()

    def pytest_collection_finish(self) -> None:
        """Replace the method with which the tests convert and compare."""
        base: Any = sys.modules["backend_test_base"].Tf2OnnxBackendTestBase
        original = base.run_test_case

        def run_test_case(
            test: Any, function: Any, feeds: Any, inputs: Any, outputs: Any, *positional: Any, **options: Any
        ) -> None:
            given = {**dict(zip(_COMPARISON, positional, strict=False)), **options}
            if any(given.get(name) for name in _OPTIONS):
                self.outcomes["left out: an option of tf2onnx"] += 1
                pytest.skip("an option of tf2onnx")
            try:
                _convert_and_compare(test, function, feeds, outputs, given)
            except Exception:
                self._run_original(original, test, function, feeds, inputs, outputs, positional, options)
                self.outcomes["fails here only"] += 1
                raise
            self.outcomes["passes"] += 1

        base.run_test_case = run_test_case

    def _run_original(self, original: Any, *arguments: Any) -> None:
        *given, positional, options = arguments
        try:
            original(*given, *positional, **options)
        except Exception:
            self.outcomes["fails with tf2onnx as well"] += 1
            pytest.skip("fails with tf2onnx as well")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print how many conversions had each outcome."""
        terminalreporter.write_line(", ".join(f"{name}: {count}" for name, count in self.outcomes.most_common()))


def _convert_and_compare(test: Any, function: Any, feeds: Any, outputs: Any, given: dict[str, Any]) -> None:
    import numpy as np

    import onnx_sparse
    from onnx_sparse.converters.tensorflow import convert
    from onnx_sparse.converters.tensorflow.graph_def_source import GraphDefSource

    wanted, graph_def, _ = test.freeze_and_run_tf(
        function, feeds, outputs, given.get("as_session", False), given.get("premade_placeholders", False), False
    )
    model = convert(GraphDefSource(graph_def, name="test", inputs=list(feeds), outputs=outputs))
    session = onnx_sparse.InferenceSession(model)
    names = [value.name for value in session.get_inputs()]
    results = session.run(None, {name: feeds[name] for name in names})
    comparison = {name: given.get(name, default) for name, default in _COMPARISON.items()}
    test.assert_results_equal(wanted, [np.asarray(result) for result in results], **comparison)


def main() -> int:
    """Run the suite of a checkout; further arguments are pytest's."""
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "tests" / "backend_test_base.py").exists():
        sys.exit(f"{__doc__}\nThe first argument must be a checkout of tensorflow-onnx.")
    os.environ |= {"TF2ONNX_TEST_OPSET": "18", "TF2ONNX_SKIP_TFLITE_TESTS": "True", "TF2ONNX_SKIP_TFJS_TESTS": "True"}
    os.chdir(Path(sys.argv[1]) / "tests")
    sys.path[0] = str(Path.cwd())
    files = sorted(str(path) for path in Path().glob("test_*.py") if "self.run_test_case" in path.read_text("utf-8"))
    options = ["-c", os.devnull, "--rootdir", ".", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=line", "-rfE"]
    return int(pytest.main([*files, *options, *sys.argv[2:]], plugins=[Suite()]))


if __name__ == "__main__":
    sys.exit(main())
