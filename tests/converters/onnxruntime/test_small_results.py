"""Where the error of a small Sigmoid shows it is computed otherwise, and where it does not the node stays."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto

import onnx_sparse
from onnx_sparse.converters.onnx import verify

#: What becomes of `s`, the Sigmoid of `x`, where its error shows in `y`.
SHOWN = {
    "the output": "y = Identity (s)",
    "parts of the output": "y = Concat <axis = 1> (x, s)",
    "a logarithm": "y = Log (s)",
    "a logarithm of a little more": "more = Add (s, little) y = Log (more)",
    "a logarithm of a product": "product = Mul (s, s) y = Log (product)",
    "a logarithm of a sum": "both = ReduceSum <keepdims = 1> (s, axes) y = Log (both)",
    "a quotient": "y = Div (one, s)",
    "a part of a sum": "both = ReduceSum <keepdims = 1> (s, axes) y = Div (s, both)",
    "a product with large numbers": "product = Mul (s, large) y = Add (product, one)",
    "a threshold": "above = Greater (s, little) y = Cast <to = 1> (above)",
    "a root": "y = Sqrt (s)",
    "a small product": "y = Mul (x, s)",
}
#: ... and where it does not.
LOST = {
    "a gate before a product": "gated = Mul (x, s) y = MatMul (gated, weight)",
    "a gate in a sum": "gated = Mul (x, s) y = Add (x, gated)",
    "the other chance": "y = Sub (one, s)",
    "a hidden layer": "moved = Transpose (s) back = Transpose (moved) y = Gemm (back, weight)",
    "powers": "y = Softmax (s)",
    "a decision": "above = Greater (s, half) y = Cast <to = 1> (above)",
}


def model(then: str, dtype: str = "float") -> ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g ({dtype}[n,3] x) => ({dtype}[a,b] y)
        <{dtype} one = {{1}}, {dtype} half = {{0.5}}, {dtype} little = {{0.000001}}, {dtype} large = {{1000000}},
        int64[1] axes = {{1}}, {dtype}[3,3] weight = {{1, 2, -1, 0.5, 3, 1, -2, 1, 1}}>
        {{ s = Sigmoid (x) {then.replace("<to = 1>", "<to = 1>" if dtype == "float" else "<to = 11>")} }}"""
    )


def run(made: ModelProto, x: np.ndarray) -> np.ndarray:
    return np.asarray(onnx_sparse.InferenceSession(made).run(None, {"x": x})[0])


def exact(made: ModelProto, x: np.ndarray) -> np.ndarray:
    """In wide numbers, which onnx's evaluator keeps."""
    wide = ModelProto()
    wide.CopyFrom(made)
    return np.asarray(onnx.reference.ReferenceEvaluator(wide).run(None, {"x": x})[0])


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("then", SHOWN.values(), ids=SHOWN.keys())
def test_where_it_shows(then, dtype):
    """Small numbers are right and the file is verified; others have the bits of ONNX Runtime."""
    made = model(then, dtype)
    fused = onnx_sparse.fuse(made)
    kind = np.float32 if dtype == "float" else np.float64
    small = np.linspace(-30 if dtype == "float" else -60, -9, 30).astype(kind).reshape(-1, 3)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(fused, small), exact(made, small), 2e-5, 1e-30)
    usual = np.linspace(-8, 40, 60).astype(kind).reshape(-1, 3)
    np.testing.assert_array_equal(run(fused, usual), run(made, usual))
    odd = np.array([[np.nan, np.inf, -np.inf]], kind)
    np.testing.assert_array_equal(run(fused, odd), run(made, odd))
    assert onnx_sparse.fuse(fused) == fused
    if dtype == "double":
        return
    shifted = onnx.compose.add_prefix(made, "", inplace=False)
    shifted.graph.node.insert(0, onnx.helper.make_node("Sub", ["x", "thirteen"], ["less"]))
    shifted.graph.initializer.append(onnx.numpy_helper.from_array(np.array(13, kind), "thirteen"))
    shifted.graph.node[1].input[0] = "less"
    records = verify(shifted, onnx_sparse.fuse(shifted))
    assert [record.ok for record in records] == [True], records


@pytest.mark.parametrize("then", LOST.values(), ids=LOST.keys())
def test_where_it_does_not(then):
    made = model(then)
    fused = onnx_sparse.fuse(made)
    assert [node.op_type for node in fused.graph.node] == [node.op_type for node in made.graph.node]
    x = np.random.default_rng(0).normal(size=(50, 3), scale=20).astype(np.float32)
    np.testing.assert_array_equal(run(fused, x), run(made, x))


def test_what_is_repaired_is_noted_and_other_faults_are_found():
    made = model(SHOWN["the output"])
    made.graph.node.insert(0, onnx.helper.make_node("Sub", ["x", "large"], ["less"]))
    made.graph.node[1].input[0] = "less"
    next(t for t in made.graph.initializer if t.name == "large").CopyFrom(
        onnx.numpy_helper.from_array(np.float32(15), "large")
    )
    fused = onnx_sparse.fuse(made)
    (record,) = verify(made, fused)
    assert record.ok
    assert "small sigmoid" in record.note
    next(t for t in fused.graph.initializer if t.name == "large").CopyFrom(
        onnx.numpy_helper.from_array(np.float32(15.001), "large")
    )
    (record,) = verify(made, fused)
    assert not record.ok
