"""The rule known-branch: an If of a known condition, whose outputs come from all places where a tensor can be."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_sparse

SEVEN = numpy_helper.from_array(np.array([7], np.float32), "seven")
#: What an output of a branch may be: a result, a tensor from outside, or a constant, each perhaps copied.
PLACES = ("made", "outer", "copied outer", "input", "constant", "copied constant")


def value(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def branch(name, places):
    nodes = {
        "made": ("Neg", ["x"]),
        "outer": ("Identity", ["doubled"]),
        "copied outer": ("Identity", ["doubled"]),
        "input": ("Identity", ["x"]),
        "copied constant": ("Identity", ["seven"]),
    }
    outputs = [f"{name}_{k}" for k in range(len(places))]
    made = [
        helper.make_node(nodes[place][0], nodes[place][1], [output])
        if place in nodes
        else helper.make_node("Constant", [], [output], value_floats=[3.0])
        for place, output in zip(places, outputs, strict=True)
    ]
    return helper.make_graph(made, name, [], [value(output) for output in outputs], [SEVEN])


@pytest.mark.parametrize("places", list(itertools.product(PLACES, repeat=2)), ids="-".join)
@pytest.mark.parametrize("condition", [True, False])
def test_outputs_of_a_branch(places, condition):
    """Two outputs of the graph, of which one is read as well."""
    other = ("made", "made")
    taken, untaken = branch("taken", places), branch("untaken", other)
    branches = {"then_branch": taken, "else_branch": untaken} if condition else {
        "then_branch": untaken, "else_branch": taken}  # fmt: skip
    nodes = [
        helper.make_node("Add", ["x", "x"], ["doubled"]),
        helper.make_node("If", ["known"], ["y", "z"], name="If_y", **branches),
        helper.make_node("Neg", ["y"], ["w"]),
    ]
    known = numpy_helper.from_array(np.array(condition), "known")
    graph = helper.make_graph(nodes, "branches", [value("x")], [value(name) for name in "yzw"], [known])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
    feeds = {"x": np.arange(3, dtype=np.float32)}
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    fused = onnx_sparse.fuse(model)
    assert not any(node.op_type == "If" for node in fused.graph.node)
    for before, after in zip(
        want, onnxruntime.InferenceSession(fused.SerializeToString()).run(None, feeds), strict=True
    ):
        np.testing.assert_array_equal(before, after)
