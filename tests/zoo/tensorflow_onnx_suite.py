"""Runs the tests of the tensorflow-onnx project through this project's converter.

    pip install parameterized pyyaml
    git clone https://github.com/onnx/tensorflow-onnx
    python tests/zoo/tensorflow_onnx_suite.py tensorflow-onnx [-k EXPRESSION]

Its tests give a function, inputs and names of outputs to one method, which converts the function and compares its
outputs with TensorFlow's. Here that method converts with this project first. Only where that fails is the test run as
it is written, with the installed tf2onnx: one that fails there too is skipped, so a failure is one that tf2onnx does
not have. What a test asserts about tf2onnx's own graph, and its options for layouts and large models, are left out.

With tf2onnx 1.17, TensorFlow 2.21 and ONNX Runtime 1.31, of 641 tests 527 pass, 113 are skipped, most of them by their
own conditions (3 fail with tf2onnx as well), and 1 is listed as an exception.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

#: Options that are tf2onnx's own.
_OPTIONS = ("process_args", "onnx_feed_dict", "large_model")

#: Options that say how a test compares.
_COMPARISON = {"rtol": 1e-7, "atol": 1e-5, "mtol": None, "check_value": True, "check_shape": True, "check_dtype": True}

#: The tests that pass with tf2onnx and are meant to fail here, with the reason.
EXCEPTIONS = {
    "test_graph_matcher": "the test inspects tf2onnx's graph",
}


@dataclass(frozen=True)
class Converted:
    """A converted model, as far as the tests use tf2onnx's graph."""

    model: ModelProto
    input_names: list[str]
    outputs: list[str]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model."""
        import onnx_sparse

        session = onnx_sparse.InferenceSession(self.model)
        given = {value.name: feeds[value.name] for value in session.get_inputs()}
        return [np.asarray(result) for result in session.run(None, given)]


class Suite:
    """A pytest plugin."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Expect the exceptions to fail; one that passes is no exception any more."""
        for item in items:
            if item.name in EXCEPTIONS:
                item.add_marker(pytest.mark.xfail(reason=EXCEPTIONS[item.name], strict=True))

    def pytest_collection_finish(self) -> None:
        """Replace the methods with which the tests convert, compare and run."""
        base: Any = sys.modules["backend_test_base"].Tf2OnnxBackendTestBase
        original, run_original = base.run_test_case, base.run_backend

        def run_test_case(
            test: Any, function: Any, feeds: Any, inputs: Any, outputs: Any, *positional: Any, **options: Any
        ) -> Converted:
            given = {**dict(zip(_COMPARISON, positional, strict=False)), **options}
            if any(given.get(name) for name in _OPTIONS):
                self.outcomes["left out: an option of tf2onnx"] += 1
                pytest.skip("an option of tf2onnx")
            try:
                converted = _convert_and_compare(test, function, feeds, outputs, given)
            except Exception:
                self._run_original(original, test, function, feeds, inputs, outputs, positional, options)
                self.outcomes["fails here only"] += 1
                raise
            self.outcomes["passes"] += 1
            return converted

        def run_backend(test: Any, graph: Any, outputs: Any, feeds: Any, *positional: Any, **options: Any) -> Any:
            if isinstance(graph, Converted):
                return graph.run(feeds)
            return run_original(test, graph, outputs, feeds, *positional, **options)

        base.run_test_case, base.run_backend = run_test_case, run_backend

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


def _convert_and_compare(test: Any, function: Any, feeds: Any, outputs: Any, given: dict[str, Any]) -> Converted:
    from onnx_sparse.converters.tensorflow import convert
    from onnx_sparse.converters.tensorflow.graph_source import from_graph

    sys.modules["backend_test_base"].tf_reset_default_graph()
    wanted, graph_def, tables = test.freeze_and_run_tf(
        function, feeds, outputs, given.get("as_session", False), given.get("premade_placeholders", False), False
    )
    contents = {name.decode(): table for name, table in (tables or {}).items()}
    source = from_graph(graph_def, name="test", inputs=list(feeds), outputs=outputs, lookup_tables=contents)
    converted = Converted(convert(source), list(feeds), outputs)
    comparison = {name: given.get(name, default) for name, default in _COMPARISON.items()}
    test.assert_results_equal(wanted, converted.run(feeds), **comparison)
    return converted


def main() -> int:
    """Run the suite of a checkout; further arguments are pytest's."""
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "tests" / "backend_test_base.py").exists():
        sys.exit(f"{__doc__}\nThe first argument must be a checkout of tensorflow-onnx.")
    os.environ |= {"TF2ONNX_TEST_OPSET": "18", "TF2ONNX_SKIP_TFLITE_TESTS": "True", "TF2ONNX_SKIP_TFJS_TESTS": "True"}
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # only Keras 2 has the cells of tf.compat.v1.nn.rnn_cell
    os.chdir(Path(sys.argv[1]) / "tests")
    sys.path[0] = str(Path.cwd())
    vars(np).setdefault("string_", np.bytes_)  # the tests use a name that numpy 2 no longer has
    further = sys.argv[2:]
    sys.argv[:] = ["pytest"]  # the suite has options of its own, but leaves those of pytest alone
    files = sorted(str(path) for path in Path().glob("test_*.py") if "self.run_test_case" in path.read_text("utf-8"))
    options = ["-c", os.devnull, "--rootdir", ".", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=line", "-rfEx"]
    return int(pytest.main([*files, *options, *further], plugins=[Suite()]))


if __name__ == "__main__":
    sys.exit(main())
