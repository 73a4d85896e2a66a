"""What the inputs of a model are for, also of models that people write by hand."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from onnx_sparse.rows.input_roles import find_roles
from onnx_sparse.schemas import DOMAIN, OPS


def model_of(nodes, inputs):
    values = [helper.make_tensor_value_info(name, TensorProto.INT64, [None]) for name in inputs]
    return helper.make_model(helper.make_graph(nodes, "roles", values, []))


@pytest.mark.parametrize("name", OPS)
def test_omitted_inputs(name):
    """Every operator of the domain, with as few inputs as it takes and with more."""
    op = OPS[name]
    needed = sum(not declared.optional for declared in op.inputs)
    for count in range(needed, len(op.inputs) + 1):
        given = [f"x{k}" for k in range(count)]
        node = helper.make_node(name, given, [f"y{k}" for k in range(len(op.outputs))], domain=DOMAIN)
        find_roles(model_of([node], given))


def test_operators_of_others():
    """One of the same name may have other inputs."""
    find_roles(model_of([helper.make_node("Gather", ["x"], ["y"], domain="other")], ["x"]))


def test_cycles_end():
    nodes = [helper.make_node("Identity", ["a"], ["b"]), helper.make_node("Identity", ["b"], ["a"])]
    nodes += [helper.make_node("Mul", ["c", "d"], ["e"]), helper.make_node("Mul", ["e", "a"], ["c"])]
    nodes.append(helper.make_node("Gather", ["x", "a"], ["y"]))
    nodes.append(helper.make_node("SegmentSum", ["c", "a"], ["z"], domain=DOMAIN))
    find_roles(model_of(nodes, ["x"]))
