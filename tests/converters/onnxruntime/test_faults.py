"""Every known fault of ONNX Runtime: its smallest model as it is, and guarded."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx_sparse import InferenceSession, fuse
from onnx_sparse.converters.onnxruntime.guards import GUARDS, guard

VERSION = tuple(map(int, onnxruntime.__version__.split(".")[:2]))

#: Runs a model in a process of its own, which may end.
_CHILD = """
import pickle, sys
import onnxruntime
onnxruntime.set_default_logger_severity(4)
model, runs = pickle.load(sys.stdin.buffer)
session = onnxruntime.InferenceSession(model)
for inputs in runs:
    (answer,) = session.run(["y"], inputs)
sys.stdout.buffer.write(pickle.dumps(answer))
"""


def shows(kind):
    """Whether ONNX Runtime, as it is, does not give the right answer."""
    example = kind.example()
    runs = [dict(inputs) for inputs in (example.before, example.before, example.inputs) if inputs is not None]
    given = pickle.dumps((example.model.SerializeToString(), runs))
    done = subprocess.run([sys.executable, "-c", _CHILD], input=given, capture_output=True, check=False)
    if done.returncode:
        return True
    answer = pickle.loads(done.stdout)
    is_float = answer.dtype.kind == "f"
    return not np.array_equal(answer, example.expected, equal_nan=is_float)


@pytest.mark.slow
@pytest.mark.parametrize("kind", GUARDS, ids=lambda kind: kind.__name__)
def test_what_is_said_of_versions(kind):
    """A fault that has gone, or come, is to be said where it is described."""
    first, last = (tuple(map(int, version.split("."))) for version in kind.seen)
    is_known = first <= VERSION <= last
    if not (is_known and kind.varies):
        assert shows(kind) == is_known


@pytest.mark.parametrize("kind", GUARDS, ids=lambda kind: kind.__name__)
def test_guarded(kind):
    example = kind.example()
    model = onnx.shape_inference.infer_shapes(example.model)
    attempts = guard(model)
    assert kind.name in {attempt.rule for attempt in attempts if attempt.fired}
    onnx.checker.check_model(model, full_check=True)
    session = InferenceSession(model)
    for inputs in filter(None, (example.before, example.inputs)):
        (got,) = session.run(None, dict(inputs))
    assert got.dtype == example.expected.dtype
    assert got.shape == example.expected.shape
    np.testing.assert_array_equal(got, example.expected)


@pytest.mark.parametrize("kind", GUARDS, ids=lambda kind: kind.__name__)
def test_malformed_nodes_stay(kind):
    """Of no inputs, of scalars, and with axes that they do not have: ONNX Runtime refuses them itself."""
    for op_type in kind.anchors:
        for inputs, attributes in (
            ([], {}),
            (["x"], {"axis": 7}),
            (["x"] * 3, {"axes": [7]}),
            (["s"] * 3, {"axis": 0}),
        ):
            node = helper.make_node(op_type, inputs, ["y"], **attributes)
            given = [helper.make_tensor_value_info("x", TensorProto.INT64, [None, None])]
            given.append(helper.make_tensor_value_info("s", TensorProto.INT64, []))
            output = [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
            guard(helper.make_model(helper.make_graph([node], "malformed", given, output)))


def test_others_are_guarded_next_to_a_malformed_node():
    text = """
    <ir_version: 8, opset_import: ["" : 18]>
    g (int64[n] x, int64[n] d) => (int64[n] y, int64 z) { y = Div (x, d) z = CumSum () }"""
    attempts = guard(onnx.parser.parse_model(text))
    assert [attempt.rule for attempt in attempts if attempt.fired] == ["integer division"]


def test_functions_are_guarded():
    """In a file, what may end the process is found in functions, too."""
    text = """
    <ir_version: 8, opset_import: ["" : 18, "local" : 1]>
    g (int64[n] x, int64[n] d) => (int64[n] y) { y = local.quotient (x, d) }
    <domain: "local", opset_import: ["" : 18]> quotient (x, d) => (y) { y = Div (x, d) }"""
    session = InferenceSession(fuse(onnx.parser.parse_model(text)))
    (got,) = session.run(None, {"x": np.array([-(2**63), 7]), "d": np.array([-1, 2])})
    assert got.tolist() == [-(2**63), 3]
